"""Convolutions in integers: shapes, values, how they lie in memory, and what their results are."""
