"""Passes on a network in Relax, before its functions are scheduled."""
