"""A labgrid coordinator and an exporter from PyPI, on loopback; the place has an outlet by HTTP."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from tests.boards.ssh.sshd import free_port
from toolchain.configuration.labgrid import LabgridPlace

BIN = Path(__file__).parents[3] / ".venv" / "labgrid" / "bin"  # by tools/servers.sh
PLACE = "rack-1"
_PATIENCE_S = 60.0


@dataclass
class Coordinator:
    """A coordinator that runs, with a place.

    Attributes
    ----------
    switched
        What the outlet of the place was told: True for on.
    """

    address: str
    folder: Path
    switched: list[bool] = field(default_factory=list)

    def place(self, name: str = PLACE, **changed: object) -> LabgridPlace:
        """Return the entry of a place."""
        return LabgridPlace(coordinator=self.address, place=name, **changed)

    def client(self, *words: str, user: str = "") -> str:
        """Run the client, as another user on another host if one is named; return its words."""
        other = {"LG_USERNAME": user, "LG_HOSTNAME": "desk"} if user else {}
        argv = [BIN / "labgrid-client", "-x", self.address, "-p", PLACE, *words]
        done = subprocess.run(
            argv,
            env={**os.environ, **other},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def holder(self) -> str:
        """Return `USER HOST` of who holds the place; empty: nobody."""
        rows = [line.split()[:3] for line in self.client("who").splitlines()[1:]]
        return next((f"{user} {host}" for user, host, place in rows if place == PLACE), "")


@contextlib.contextmanager
def coordinator(folder: Path, switch: Callable[[bool], None] = lambda _: None) -> Iterator[Coordinator]:
    """Run a coordinator, an exporter and the outlet, whose every change is passed to `switch`."""
    assert (BIN / "labgrid-client").exists(), "no labgrid here: tools/servers.sh installs it"
    folder.mkdir(parents=True)
    running = Coordinator(f"127.0.0.1:{free_port()}", folder)
    with contextlib.ExitStack() as stack:
        outlet = stack.enter_context(_outlet(running, switch))
        resources = folder / "resources.yaml"
        resources.write_text(
            "board:\n  NetworkPowerPort:\n    model: rest\n"
            f"    host: 'http://127.0.0.1:{outlet}/relay/{{index}}/value'\n    index: '3'\n"
        )
        log = stack.enter_context((folder / "log").open("ab"))
        stack.enter_context(_child([BIN / "labgrid-coordinator", "-l", running.address], folder, log))
        _until_it_works(running, "places")
        exporter = [BIN / "labgrid-exporter", "-c", running.address, "-n", "host", resources]
        stack.enter_context(_child(exporter, folder, log))
        running.client("create")
        running.client("add-match", "host/board/*")
        deadline = time.monotonic() + _PATIENCE_S
        while "NetworkPowerPort" not in running.client("resources"):
            assert time.monotonic() < deadline, (folder / "log").read_text()
        yield running


@contextlib.contextmanager
def _child(argv: list[str | Path], folder: Path, log: IO[bytes]) -> Iterator[None]:
    child = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(20)


def _until_it_works(running: Coordinator, *words: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            running.client(*words)
        except AssertionError:
            assert time.monotonic() < deadline, (running.folder / "log").read_text()
            time.sleep(0.1)
        else:
            return


@contextlib.contextmanager
def _outlet(running: Coordinator, switch: Callable[[bool], None]) -> Iterator[int]:
    class Relay(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            on = self.rfile.read(int(self.headers["Content-Length"])) == b"1"
            running.switched.append(on)
            switch(on)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
