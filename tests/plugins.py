"""Plugins as pip would install them: their entry points, beside this checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolchain.architectures import table as architectures
from toolchain.devices import table as devices
from toolchain.models.reading import formats
from toolchain.rollouts import carriers

ROOT = Path(__file__).parent.parent
TOY = ROOT / "tests" / "toy"


TABLES = (devices.PLUGINS, architectures.PLUGINS, formats.PLUGINS, carriers.PLUGINS)


def install(
    folder: Path,
    patch: pytest.MonkeyPatch,
    package: str = "edge",
    group: str = devices.PLUGINS.group,
    **rows: str,
) -> None:
    """Let packages be installed in a folder, one for each row, for this process and its children.

    Parameters
    ----------
    package
        What their names begin with.
    group
        Entry-point group of the table that gets the rows.
    rows
        Name of the row -> `module:ROW`, as in an entry point.
    """
    for kind, row in rows.items():
        metadata = folder / f"{package}_{kind}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}-{kind}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{kind} = {row}\n")
    patch.syspath_prepend(folder)
    paths = [str(folder), str(ROOT), str(TOY), *filter(None, [os.environ.get("PYTHONPATH")])]
    patch.setenv("PYTHONPATH", os.pathsep.join(paths))
    forget()


def forget() -> None:
    """Let installed plugins be looked for again."""
    for table in TABLES:
        table.forget()
