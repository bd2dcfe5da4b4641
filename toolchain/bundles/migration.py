"""Migrates manifests of earlier versions to the current schema, one step per version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolchain.bundles.manifest import ONE_SHAPE, SCHEMA_VERSION

_Values = dict[str, Any]


def migrated(values: _Values, version: int) -> _Values:
    """Return a manifest's values migrated to `ONE_SHAPE`, or those of a newer version as they are.

    Parameters
    ----------
    values
        Values of a manifest of the given version; they are not changed.

    Raises
    ------
    ValueError
        The version never existed, or a key belongs to a later version.
    """
    while version < ONE_SHAPE:
        if version not in _STEPS:
            raise ValueError(f"schema_version is {version}: the first one was {min(_STEPS)}")
        version, values = version + 1, _STEPS[version](values)
    if version < SCHEMA_VERSION and (late := sorted({"parts", "reference", "sample"} & values.keys())):
        raise ValueError(f"{', '.join(late)}: no key of version {version}, but of {SCHEMA_VERSION}")
    if version == ONE_SHAPE and (early := sorted({"shapes", "pad"} & values.keys())):
        raise ValueError(f"{', '.join(early)}: no key of version {ONE_SHAPE}, but of {ONE_SHAPE + 1}")
    return values


def _from_1(values: _Values) -> _Values:
    """Add the device and its requirements: version 1 supported only CPUs, which have none."""
    return _with_new(values, 2, {"device": "cpu", "runtime": {"devices": [], "functions": []}})


def _with_new(values: _Values, version: int, new: _Values) -> _Values:
    if early := sorted(new.keys() & values.keys()):
        raise ValueError(f"{', '.join(early)}: no key of version {version - 1}, but of {version}")
    return {**values, **new, "schema_version": version}


def _from_2(values: _Values) -> _Values:
    """Add the facts about quantising: version 2 had no quantised networks."""
    return _with_new(values, 3, {"quantising": None})


def _from_3(values: _Values) -> _Values:
    """Add tolerances of single outputs: version 3 had one tolerance for all outputs."""
    return _with_new(values, 4, {"tolerances": []})


def _from_4(values: _Values) -> _Values:
    """Add the rates, which were the class's. Tasks gain keys that have defaults."""
    return _with_new(values, 5, {"rates": {"of": "class", "cores": None}})


_STEPS: dict[int, Callable[[_Values], _Values]] = {1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4}
