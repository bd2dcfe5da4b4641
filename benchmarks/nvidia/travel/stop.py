"""The error that ends a run with a sentence."""

from __future__ import annotations


class Stop(Exception):  # noqa: N818 - an end, with its reason
    """Nothing can be measured, for the reason that it says."""
