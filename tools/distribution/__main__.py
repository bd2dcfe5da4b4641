"""`make release`: writes wheels, sdist, bill of materials, site and checksums to dist/, checked.

It publishes nothing.

python -m tools.distribution [--no-container]
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from toolchain import __version__
from toolchain.errors import ToolchainError
from toolchain.files import atomic
from toolchain.images.engine import answers
from toolchain.runtime import ARCHES
from tools.distribution import changelog, tree
from tools.distribution.building import BuildError, Packages, build_packages, build_wheel
from tools.distribution.checking import FirstDay, WheelError
from tools.distribution.container import debian_with
from tools.distribution.fresh import fresh_environment
from tools.distribution.runtimes import Compiled, compile_all
from tools.distribution.site import build_site

_SUMS = "SHA256SUMS"
_BILL_S = 120
_REFUSED = 2


def main() -> int:
    """Build, check, and put what passed into dist/."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-container", action="store_true", help="check in a virtual environment alone")
    options = parser.parse_args()
    if reason := refusal(tree.ROOT):
        _tell(reason)
        return _REFUSED
    try:
        with tempfile.TemporaryDirectory(prefix="edge-dist-") as folder:
            _make(Path(folder), with_container=not options.no_container)
    except (BuildError, WheelError, ToolchainError, subprocess.SubprocessError) as error:
        _tell(f"{error}; dist/ was not changed")
        return 1
    return 0


def refusal(root: Path) -> str:
    """Return why no distribution is made of a checkout as it is; empty if one can be."""
    if changed := tree.changes(root):
        more = " …" if changed[1:] else ""
        return f"the checkout differs from its commit: {changed[0].strip()}{more}: commit first"
    return changelog.problem(root / "CHANGELOG.md", __version__)


def sums(folder: Path) -> str:
    """Return the lines that `sha256sum --check` reads, for every file of a folder."""
    files = sorted(path for path in folder.iterdir() if path.name != _SUMS)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def _make(folder: Path, with_container: bool) -> None:
    made, out = tree.epoch(), folder / "dist"
    compiled = compile_all(ARCHES, _tell)
    compiled.compare(folder / "compiled", _tell)
    packages = _built_twice(folder, out, made, compiled)
    runtimes = compiled.pack(folder / "runtimes", out, made)
    bill = out / f"{packages.wheel.stem.partition('-py3')[0]}.cdx.json"
    _tell(f"writing {bill.name}")
    subprocess.run(
        [
            *(str(tree.ROOT / ".venv" / "sbom" / "bin" / "python"), "-m", "tools.distribution.bom"),
            *(str(packages.wheel), str(made), str(bill)),
        ],
        cwd=tree.ROOT,
        timeout=_BILL_S,
        check=True,
    )
    _tell("building the documentation site")
    build_site(out, folder / "site", made)
    _check_in_environment(folder, packages)
    if not with_container:
        _tell("not checked in a container: --no-container")
    elif answers():
        _check_in_container(folder, packages, runtimes)
    else:
        _tell("not checked in a container: no Docker engine answers")
    (out / _SUMS).write_text(sums(out))
    target = tree.ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    with atomic.replacing_folder(target) as fresh:
        shutil.copytree(out, fresh, dirs_exist_ok=True)
    for path in sorted(target.iterdir()):
        print(f"{path.stat().st_size:>10}  dist/{path.name}")


def _built_twice(folder: Path, out: Path, made: int, compiled: Compiled) -> Packages:
    _tell("building wheel and sdist, and both again elsewhere")
    first, second = tree.copy_tree(folder / "source"), tree.copy_tree(folder / "a" / "second" / "source")
    for source in (first, second):
        compiled.pin(source)
    packages = build_packages(first, out, made)
    again = build_packages(second, folder / "again", made)
    shutil.unpack_archive(packages.sdist, folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    third = build_wheel(unpacked, folder / "third", made)
    for first, others in ((packages.wheel, (again.wheel, third)), (packages.sdist, (again.sdist,))):
        if any(first.read_bytes() != other.read_bytes() for other in others):
            raise WheelError(f"{first.name}: two builds differ")
    return packages


def _check_in_environment(folder: Path, packages: Packages) -> None:
    _tell("checking the wheel in a fresh environment with an empty HOME; it compiles edge-rt: minutes")
    fresh = fresh_environment(folder / "fresh")
    fresh.install(packages.wheel)
    day = folder / "day"
    day.mkdir()
    FirstDay(fresh, day, tell=_tell).walk(__version__, docker=answers())


def _check_in_container(folder: Path, packages: Packages, runtimes: list[Path]) -> None:
    _tell("checking all wheels in a fresh Debian without a network: a minute")
    day = folder / "day-in-debian"
    day.mkdir()
    with debian_with([packages.wheel, *runtimes], day) as debian:
        FirstDay(debian, day, tell=_tell).walk(__version__, docker=False)


def _tell(line: str) -> None:
    print(f"distribution: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
