"""Plans for NVIDIA's GPUs: what TensorRT takes, building, and the cache of plans."""
