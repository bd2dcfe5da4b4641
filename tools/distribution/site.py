"""Builds the documentation site of a version: `make site`, checked, in one zip file."""

from __future__ import annotations

import sys
import time
import zipfile
from pathlib import Path

from toolchain import __version__
from tools.distribution.building import run_builder
from tools.distribution.tree import ROOT

_FOLDER = f"edge_toolchain-{__version__}-docs"


def build_site(out: Path, folder: Path, made: int) -> Path:
    """Build the site in `folder`, check its links, and pack it into `out`; return the zip file.

    Parameters
    ----------
    made
        The time that the file says of every page, in seconds since 1970.

    Raises
    ------
    BuildError
        mkdocs warns of something, or a link leads nowhere.
    """
    mkdocs = ROOT / "build" / "mkdocs" / "bin" / "mkdocs"
    _run([str(mkdocs), "build", "--strict", "--site-dir", str(folder)], made)
    _run([sys.executable, str(ROOT / "docs" / "site" / "check.py"), str(folder)], made)
    return pack(folder, out / f"{_FOLDER}.zip", made)


def pack(folder: Path, target: Path, made: int) -> Path:
    """Write the files of a folder into a zip file; equal files give equal bytes."""
    when = time.gmtime(made)[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(f"{_FOLDER}/{path.relative_to(folder).as_posix()}", when)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return target


def _run(command: list[str], made: int) -> None:
    run_builder(command, ROOT, made, "the documentation site cannot be built", NO_MKDOCS_2_WARNING="1")
