"""Dialects of kernel source: how TVM's source for each kind of device is generated and corrected."""
