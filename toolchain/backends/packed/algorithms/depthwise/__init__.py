"""Depthwise convolutions: every channel is a group of its own."""
