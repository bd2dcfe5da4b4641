"""The backend `vta`: a VTA computes integer convolutions, the CPU the rest of the network."""
