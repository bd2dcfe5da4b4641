"""The network: planned, then put together of generated functions."""
