"""Processes of ours: given up, told apart, not interrupted."""
