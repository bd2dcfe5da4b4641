"""Whole emulated machines, whose power is cut."""
