"""Debian's Mender client in standalone mode, in a mount namespace where the files that it wants lie."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.releases.views import seeing
from toolchain.releases.export import MODULE

UNPACKED = Path(__file__).parents[3] / ".venv" / "mender" / "usr"  # by tools/servers.sh
PATH = f"{os.environ['PATH']}{os.pathsep}{UNPACKED}/bin"


@dataclass(frozen=True)
class MenderClient:
    """A client whose device is an `rk3399`; its files `calls` and `pid` say what asked for which state."""

    folder: Path

    @classmethod
    def installed(cls, folder: Path, edge_rt: Path, field: Path) -> MenderClient:
        modules, etc = folder / "share/mender/modules/v3", folder / "etc"
        for each in (modules, etc / "mender", folder / "data"):
            each.mkdir(parents=True)
        shutil.copy(MODULE, modules / "module")
        # Notes each call, and on the way kills or fails where the test says so.
        (modules / "edge-bundle").write_text(
            f'#!/bin/sh\necho "$1" >> {folder}/calls\necho $PPID > {folder}/pid\n'
            f'if [ "$(cat {folder}/fail 2>/dev/null)" = "$1" ]; then exit 1; fi\n'
            f'sh "${{0%/*}}/module" "$@" || exit\n'
            f'if [ "$(cat {folder}/kill 2>/dev/null)" = "$1" ]; then kill -9 $PPID; fi\n'
        )
        (modules / "edge-bundle").chmod(0o755)
        (etc / "edge-bundle.conf").write_text(f"EDGE_RT={edge_rt}\nFIELD={field}\n")
        (etc / "mender/artifact_info").write_text("artifact_name=factory\n")
        (folder / "device_type").write_text("device_type=rk3399\n")
        (folder / "mender.conf").write_text(json.dumps({"DeviceTypeFile": str(folder / "device_type")}))
        return cls(folder)

    def run(self, *words: str | Path) -> int:
        program = shutil.which("mender", path=PATH)
        assert program, "no Mender client here: tools/servers.sh unpacks one"
        options = ["--no-syslog", "--config", self.folder / "mender.conf", "--data", self.folder / "data"]
        enter = seeing({"/usr/share": self.folder / "share", "/etc": self.folder / "etc"})
        libraries = ":".join(str(each) for each in UNPACKED.glob("lib/*-linux-gnu"))
        with (self.folder / "log").open("ab") as log:
            return subprocess.run(
                [*enter, program, *options, *words],
                stdout=log,
                stderr=log,
                env={**os.environ, "LD_LIBRARY_PATH": libraries},
                timeout=60,
                check=False,
            ).returncode

    def calls(self) -> list[str]:
        """Return the calls since the last question."""
        file = self.folder / "calls"
        found = file.read_text().split() if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    def disturb(self, how: str, state: str | None) -> None:
        """Let the module `fail` in a state before it does anything, or `kill` the client after it."""
        (self.folder / how).write_text(state or "")
