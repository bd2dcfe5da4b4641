"""Lowers networks from Relax to objects: the code that all backends on TVM share."""
