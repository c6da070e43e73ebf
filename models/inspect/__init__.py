"""What an ONNX file says about itself, and the model card that follows from it."""
