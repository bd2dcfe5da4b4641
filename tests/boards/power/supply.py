"""The power supply of a board of these tests: it kills or starts the board's sshd, with all it runs.

`python supply.py on|off|cycle FOLDER [PASSWORD]` reads FOLDER/supply.json, which `supplied` writes, and
appends the action to FOLDER/switched. With a file FOLDER/broken nothing is switched on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from tests.boards.ssh.sshd import Sshd
    from toolchain.configuration.power import PowerCommands

_END_S = 20.0


@dataclass(frozen=True)
class Supply:
    """A supply: the folder of its server, and the folder in which all the board's programs run."""

    folder: Path
    root: Path

    def argv(self, action: str, *more: str) -> list[str]:
        """Return the command for an action."""
        return [sys.executable, str(Path(__file__).resolve()), action, str(self.folder), *more]

    def commands(self, **changed: object) -> PowerCommands:
        """Return power commands that lose no time."""
        from toolchain.configuration.power import PowerCommands

        quick = {"pause_s": 0, "silent_s": 0, "boot_s": 30, "between_s": 0, **changed}
        return PowerCommands(on=self.argv("on"), off=self.argv("off"), **quick)

    def switch(self, action: str) -> None:
        """Switch without a word in the list of what was switched."""
        subprocess.run(self.argv(action, "quietly"), check=True, timeout=60)

    @property
    def switched(self) -> list[str]:
        """What was done so far."""
        file = self.folder / "switched"
        return file.read_text().split() if file.exists() else []


@contextmanager
def supplied(server: Sshd, root: Path) -> Iterator[Supply]:
    """Give a running server a supply; what it started is ended at the end."""
    from tests.boards.ssh.sshd import libraries

    argv = [word for word in server.process.args if word != "-D"]
    facts = {"argv": argv, "libraries": libraries(), "root": str(root), "port": server.port}
    (server.folder / "supply.json").write_text(json.dumps(facts))
    supply = Supply(server.folder, root)
    try:
        yield supply
    finally:
        supply.switch("off")


def _switch_off(config: str, root: str, port: int) -> None:
    """Kill the server, its sessions, and what runs in the board's folder: nothing has time to tidy up."""
    deadline = time.monotonic() + _END_S
    # Again: one that was just being started, or that wrote its title anew, may have been missed.
    while (victims := _programs(config, root)) or _listens(port):
        if time.monotonic() > deadline:
            sys.exit("something of the board goes on")
        # Servers first: no power cut lets one say how the programs of its sessions ended.
        for process in sorted(victims, key=lambda each: not _is_server(each)):
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        while any(map(_lives, victims)):
            if time.monotonic() > deadline:
                sys.exit("something of the board does not end")
            time.sleep(0.01)


def _programs(config: str, root: str) -> set[psutil.Process]:
    """Return the processes of the board that live."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if config in process.cmdline() and "sshd" in process.name():
                found.add(process)
                found.update(process.children(recursive=True))
            elif Path(process.cwd()).is_relative_to(root):
                found.add(process)
    return {each for each in found if each.pid != os.getpid() and _lives(each)}


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _is_server(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.name().startswith("sshd")
    return False


def main() -> None:
    """Switch."""
    action, folder = sys.argv[1], Path(sys.argv[2])
    facts = json.loads((folder / "supply.json").read_text())
    if "quietly" not in sys.argv:
        with (folder / "switched").open("a") as file:
            file.write(f"{action}\n")
    if action in ("off", "cycle"):
        _switch_off(str(folder / "sshd_config"), facts["root"], facts["port"])
    if action in ("on", "cycle") and not (folder / "broken").exists():
        # It makes a daemon of itself.
        environment = {**os.environ, "LD_LIBRARY_PATH": facts["libraries"]}
        subprocess.run(facts["argv"], check=True, stdin=subprocess.DEVNULL, env=environment)


if __name__ == "__main__":
    main()
