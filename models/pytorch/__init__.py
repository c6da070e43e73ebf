"""ONNX networks run by PyTorch, operator by operator."""
