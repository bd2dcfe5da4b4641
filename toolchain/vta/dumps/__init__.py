"""Dumps: folders with a program and the memory before and after it."""
