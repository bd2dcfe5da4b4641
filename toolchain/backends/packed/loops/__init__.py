"""Building blocks of generated loops."""
