"""Designs of the accelerator: their configurations, and the constants of the cycle model."""
