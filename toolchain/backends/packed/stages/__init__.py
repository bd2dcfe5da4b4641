"""Loops for functions that no algorithm for contractions computes, and for those that we write whole."""
