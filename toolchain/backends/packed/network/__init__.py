"""Plans the functions of a fused network, and rebuilds the network from generated functions."""
