"""The expected outputs of a network, and how much different rounding changes them."""
