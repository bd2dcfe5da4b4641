"""Which records say how generated code computes a task."""

from __future__ import annotations

import json

from toolchain.records.record import Record
from toolchain.records.store import Usable, anything

CPU = "cpu"
"""The kind of a record whose payload is a `Choice`."""
KINDS = (CPU,)
WINOGRAD = "winograd"
"""What a run leaves out where winograd is not wanted."""


def excluded(winograd: bool) -> str:
    """Return what a run with this option leaves out, for the provenance of its records."""
    return "" if winograd else WINOGRAD


def usable(winograd: bool) -> Usable:
    """Return which records a build takes that may use winograd, or may not.

    A build with winograd leaves alone what was found without: that was never compared with winograd,
    which may be what the build chooses by itself.
    """
    return _searched_everything if winograd else without_winograd


def allowed(winograd: bool) -> Usable:
    """Return which records may be measured again by a run that may use winograd, or may not."""
    return anything if winograd else without_winograd


def without_winograd(record: Record) -> bool:
    """Whether a record's choice does without winograd; one that cannot be read is for others to refuse."""
    try:
        return bool(json.loads(record.payload).get("algorithm") != WINOGRAD)
    except (ValueError, AttributeError, RecursionError):
        return True


def _searched_everything(record: Record) -> bool:
    return not record.provenance.excluded
