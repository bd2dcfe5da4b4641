"""Convolutions with fewer output channels than a block: a vector's lanes are neighbouring columns."""
