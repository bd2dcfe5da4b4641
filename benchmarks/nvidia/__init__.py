"""Networks on NVIDIA's GPUs, ours beside PyTorch's: a pack for a machine with a GPU, and its tables."""
