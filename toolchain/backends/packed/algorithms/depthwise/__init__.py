"""Convolutions whose every channel is a group of its own."""
