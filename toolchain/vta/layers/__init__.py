"""Integer convolutions: their shapes, values, layouts in memory, and expected results."""
