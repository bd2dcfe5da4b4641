"""Checks on a board what its class promises; writes what was found without saying whose board it is."""
