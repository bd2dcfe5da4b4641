"""The expected outputs of a network, and the facts needed to compare with them."""
