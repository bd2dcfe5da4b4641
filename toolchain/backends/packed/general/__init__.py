"""The rule for functions without a contraction, and functions that are written whole."""
