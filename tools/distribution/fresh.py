"""A fresh environment with a wheel in it, on top of packages that are installed elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_INSTALL_S = 120
_COMMAND_S = 600
_PROGRAMS = ("cmake", "ninja")
"""Programs of installed packages, which lie in an environment's folder of programs."""


@dataclass(frozen=True)
class Fresh:
    """An environment with the toolchain from a wheel.

    Attributes
    ----------
    folder
        Where it lies.
    home
        HOME of its commands; empty at first.
    """

    folder: Path
    home: Path

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where it has its own packages; those of others come after them."""
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.folder)}))

    def install(self, wheel: Path) -> None:
        """Install a wheel over what is there, as `pip install` does, without what it needs."""
        subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "pip",
                    "--python",
                    str(self.python),
                    "install",
                    "--quiet",
                    "--no-deps",
                ),
                *("--no-index", "--no-input", "--disable-pip-version-check", "--force-reinstall", str(wheel)),
            ],
            env=_environment(),
            timeout=_INSTALL_S,
            check=True,
        )

    def run(
        self, *arguments: object, cwd: Path | None = None, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `toolchain ARGUMENTS`; its streams are in the result."""
        return subprocess.run(
            [str(self.folder / "bin" / "toolchain"), *map(str, arguments)],
            cwd=cwd or self.home,
            env={**_environment(), "HOME": str(self.home), **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )


def fresh_environment(folder: Path) -> Fresh:
    """Make an environment that sees this Python's packages, but not this checkout."""
    found = Fresh(folder / "venv", folder / "home")
    found.home.mkdir(parents=True)
    venv.create(found.folder, with_pip=False, symlinks=True)
    # Python obeys no *.pth of a folder that a *.pth names: that of the editable install stays unread.
    (found.packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for name in _PROGRAMS:
        program = Path(sys.executable).parent / name
        if program.is_file():
            (found.folder / "bin" / name).symlink_to(program)
    return found


def _environment() -> dict[str, str]:
    """Return this process's environment without what would lead back to this checkout."""
    foreign = ("TOOLCHAIN_", "XDG_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
