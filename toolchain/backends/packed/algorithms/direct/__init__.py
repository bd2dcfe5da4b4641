"""Direct convolution: sums over input channels and taps, as in the definition."""
