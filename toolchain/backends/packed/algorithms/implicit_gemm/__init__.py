"""Convolution as a matrix product whose tiles a work group keeps in shared memory, for GPUs."""
