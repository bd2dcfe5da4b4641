"""Compiles edge-rt for every architecture, twice, and packs it into a wheel for each.

    python -m tools.distribution.runtimes ARCH FOLDER

compiles it for one architecture in an empty folder: `make release` starts this for the second time, with
copies of our sources, TVM's and zig in other folders than this environment's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from toolchain import __version__
from toolchain.runtime import ensure_runtime
from toolchain.runtime.compile import compile_runtime
from toolchain.runtime.wheel import FILES, package_of, write_digests
from tools.distribution.building import BuildError, build_wheel
from tools.distribution.tree import ROOT

_COPIED = ("tvm", "tvm_ffi", "ziglang")
_COMPILE_S = 3600.0
_PROJECT = """\
[build-system]
requires = ["hatchling==1.28.0"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
description = "edge-rt for {arch}, compiled: edge-toolchain {version} uses it in place of compiling it"
requires-python = ">=3.11"
license = "Apache-2.0 AND Apache-2.0 WITH LLVM-exception AND ISC"
license-files = ["LICENSE", "NOTICE", "LICENSE.libsodium"]

[tool.hatch.build.targets.wheel]
packages = ["{package}"]
"""


@dataclass(frozen=True)
class Compiled:
    """edge-rt, compiled for some architectures.

    Attributes
    ----------
    folders
        Where the files of each lie, by architecture.
    """

    folders: dict[str, Path]

    def compare(self, folder: Path, tell: Callable[[str], None]) -> None:
        """Compile all of it once more, elsewhere.

        Raises
        ------
        BuildError
            A file differs, or the compiler failed.
        """
        elsewhere = copy_sources(folder / "elsewhere")
        for arch, first in self.folders.items():
            tell(f"compiling edge-rt for {arch} once more, elsewhere: minutes")
            again = compile_elsewhere(arch, elsewhere, folder / f"again-{arch}")
            for name in FILES:
                if (first / name).read_bytes() != (again / name).read_bytes():
                    raise BuildError(f"{name} for {arch}: two builds differ: {first}, {again}")

    def pin(self, source: Path) -> None:
        """Write the digests into a copy of the sources."""
        write_digests(self.folders, source / "toolchain" / "runtime" / "digests.json")

    def pack(self, folder: Path, out: Path, made: int) -> list[Path]:
        """Write a wheel for each architecture; return the wheels."""
        return [pack_wheel(arch, files, folder / arch, out, made) for arch, files in self.folders.items()]


def compile_all(arches: Iterable[str], tell: Callable[[str], None]) -> Compiled:
    """Compile edge-rt for these architectures, as far as it is not in the cache."""
    return Compiled({arch: ensure_runtime(arch, progress=tell).program.parent for arch in arches})


def pack_wheel(arch: str, files: Path, folder: Path, out: Path, made: int) -> Path:
    """Write the wheel of one architecture into `out`: equal files give equal bytes.

    Parameters
    ----------
    files
        The folder with the compiled files.
    folder
        A folder to be made, for what the wheel is made from.
    made
        The time that it says of every file, in seconds since 1970.
    """
    package, source = package_of(arch), folder / "source"
    (source / package).mkdir(parents=True)
    for name in FILES:
        shutil.copyfile(files / name, source / package / name)
    for name in ("LICENSE", "NOTICE"):
        shutil.copyfile(ROOT / name, source / name)
    shutil.copyfile(ROOT / "toolchain/native/libsodium/LICENSE", source / "LICENSE.libsodium")
    (source / package / "__init__.py").write_text(f'"""edge-rt for {arch}, compiled."""\n')
    text = _PROJECT.format(name=package.replace("_", "-"), version=__version__, arch=arch, package=package)
    (source / "pyproject.toml").write_text(text)
    wheel = build_wheel(source, folder / "wheel", made)
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(wheel, out / wheel.name))


def copy_sources(folder: Path) -> Path:
    """Copy or link all that edge-rt is compiled from and by into a folder; return it."""
    for name in _COPIED:
        spec = importlib.util.find_spec(name)
        assert spec and spec.submodule_search_locations  # noqa: S101 - ensure_runtime found it
        shutil.copytree(spec.submodule_search_locations[0], folder / name, copy_function=_link)
    shutil.copytree(ROOT / "toolchain", folder / "toolchain", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tools", folder / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def compile_elsewhere(arch: str, sources: Path, folder: Path) -> Path:
    """Compile edge-rt from such a copy, with an empty cache; return the folder with its files.

    Raises
    ------
    BuildError
        It does not compile.
    """
    folder.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "tools.distribution.runtimes", arch, str(folder)],
        cwd=sources,
        env={**os.environ, "PYTHONPATH": str(sources), "TOOLCHAIN_CACHE_DIR": str(folder.parent / "cache")},
        capture_output=True,
        text=True,
        timeout=_COMPILE_S,
        check=False,
    )
    if done.returncode != 0 or json.loads(done.stdout) != str(sources / "toolchain"):
        raise BuildError(f"edge-rt for {arch} cannot be compiled in {sources}: {done.stdout}{done.stderr}")
    return folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


if __name__ == "__main__":
    import toolchain

    compile_runtime(sys.argv[1], Path(sys.argv[2]), lambda _line: None)
    print(json.dumps(str(Path(toolchain.__file__).parent)))
