"""The records that packed code can use."""

from __future__ import annotations

import json

from toolchain.records.record import Record
from toolchain.records.store import Usable, anything

CPU = "cpu"
"""The kind of a record whose payload is a `Choice`."""
KINDS = (CPU,)
TFLOAT32 = "tfloat32"
"""The kind of such a record if factors of products may be rounded to tfloat32."""
TFLOAT32_KINDS = (TFLOAT32,)
WINOGRAD = "winograd"
"""Value of a record's `excluded` if its run did not consider winograd."""


def excluded(winograd: bool) -> str:
    """Return what a run with this option excludes, for the provenance of its records."""
    return "" if winograd else WINOGRAD


def usable(winograd: bool) -> Usable:
    """Return the filter of records for a build that may use winograd, or may not.

    A build with winograd ignores records of runs without it: those runs did not compare with winograd, which
    may be the build's own default.
    """
    return _searched_everything if winograd else without_winograd


def allowed(winograd: bool) -> Usable:
    """Return the filter of records that a run, with or without winograd, may measure again."""
    return anything if winograd else without_winograd


def without_winograd(record: Record) -> bool:
    """Return whether a record's choice is not winograd; True for an unreadable one, which others reject."""
    try:
        return bool(json.loads(record.payload).get("algorithm") != WINOGRAD)
    except (ValueError, AttributeError, RecursionError):
        return True


def _searched_everything(record: Record) -> bool:
    return not record.provenance.excluded
