"""Manifests of earlier versions in today's form: one step for each version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolchain.bundles.manifest import SCHEMA_VERSION

_Values = dict[str, Any]


def migrated(values: _Values, version: int) -> _Values:
    """Return a manifest's values as a manifest of `SCHEMA_VERSION` has them.

    Parameters
    ----------
    values
        As they were read, of that version; left as they are.

    Raises
    ------
    ValueError
        No manifest has such a version, or it has keys that came later.
    """
    while version < SCHEMA_VERSION:
        if version not in _STEPS:
            raise ValueError(f"schema_version is {version}: the first one was {min(_STEPS)}")
        version, values = version + 1, _STEPS[version](values)
    return values


def _from_1(values: _Values) -> _Values:
    """Add what computes: there were CPUs alone, which ask nothing of edge-rt."""
    return _with_new(values, 2, {"device": "cpu", "runtime": {"devices": [], "functions": []}})


def _with_new(values: _Values, version: int, new: _Values) -> _Values:
    if early := sorted(new.keys() & values.keys()):
        raise ValueError(f"{', '.join(early)}: no key of version {version - 1}, but of {version}")
    return {**values, **new, "schema_version": version}


def _from_2(values: _Values) -> _Values:
    """Add what became integers: nothing did."""
    return _with_new(values, 3, {"quantising": None})


def _from_3(values: _Values) -> _Values:
    """Add tolerances of single outputs: one held for all."""
    return _with_new(values, 4, {"tolerances": []})


_STEPS: dict[int, Callable[[_Values], _Values]] = {1: _from_1, 2: _from_2, 3: _from_3}
