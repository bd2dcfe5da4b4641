"""Compiles layers to a program: cuts them into pieces, orders those, and emits instructions."""
