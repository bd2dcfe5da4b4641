"""Passes on a network in Relax, which run before its functions are scheduled."""
