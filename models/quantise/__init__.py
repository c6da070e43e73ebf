"""From an FP32 network to INT8: rewriting, calibration, and the INT8 file itself."""
