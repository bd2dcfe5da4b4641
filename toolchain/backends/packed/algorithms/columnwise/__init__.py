"""Convolutions of fewer output channels than a block has: the lanes of a vector are neighbouring columns."""
