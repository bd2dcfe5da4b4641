"""Dumps: a program with the memory before and after it, as files in a folder."""
