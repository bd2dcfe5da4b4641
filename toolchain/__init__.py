"""From a network to a tuned, verified, timed library on an edge board."""

__version__ = "0.1.0"
