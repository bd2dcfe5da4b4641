"""The licence of each distribution as an SPDX expression: by its own metadata, else by licences.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

from tools.distribution.locked import normal

TABLE: dict[str, str] = tomllib.loads(Path(__file__).with_name("licences.toml").read_text())


class LicenceError(Exception):
    """Neither the metadata nor the table has a licence."""


def licence(name: str) -> str:
    """Return the SPDX expression of a distribution's licence.

    Raises
    ------
    LicenceError
        Nothing says it: read its licence file, and add a line to licences.toml.
    """
    found = declared().get(name) or TABLE.get(name)
    if found is None:
        raise LicenceError(f"{name}: no licence is known; add a line to tools/distribution/licences.toml")
    return found


@cache
def declared() -> dict[str, str]:
    """Return the License-Expression of every installed distribution that has one."""
    found = {normal(each.name): each.metadata for each in metadata.distributions()}
    key = "License-Expression"
    return {name: said[key] for name, said in found.items() if key in said}
