"""Boards over SSH."""
