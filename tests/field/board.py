"""A board's folder with the installer at work in it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.field.build import installer
from tests.field.toy import APP, NOW, TRUST, Toy, sha256
from toolchain.releases.envelope import Envelope

_PATIENCE_S = 60.0


@dataclass
class Install:
    """`install -` at work, by a host that may go away."""

    child: subprocess.Popen[bytes]
    lines: list[dict[str, Any]] = field(default_factory=list)

    def line(self) -> dict[str, Any]:
        """Return the next line that the board says."""
        assert self.child.stdout is not None
        text = self.child.stdout.readline()
        assert text, f"it ended after {self.lines}"
        self.lines.append(json.loads(text))
        return self.lines[-1]

    def until(self, key: str) -> dict[str, Any]:
        """Return the next line with this key."""
        while key not in (line := self.line()):
            pass
        return line

    def send(self, data: bytes) -> None:
        """Send bytes; the board may have gone."""
        assert self.child.stdin is not None
        try:
            self.child.stdin.write(data)
            self.child.stdin.flush()
        except BrokenPipeError:
            pass

    def close(self) -> None:
        """Break the link: the board reads its end, and nobody reads what it says."""
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # it went before it read all
                    pipe.close()

    def send_parts(self, toy: Toy) -> None:
        """Send what the board asks for."""
        parts = list(toy.parts.values())
        for part, offset in self.until("need")["need"]:
            self.send(parts[part][offset:])

    def stopped(self) -> bool:
        """Wait until it stands still in the step that was asked for; False if it ended before."""
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            pid, status = os.waitpid(self.child.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                return True
            if pid:
                self.child.returncode = os.waitstatus_to_exitcode(status)
                return False
            time.sleep(0.002)
        raise AssertionError("it neither stopped nor ended")

    def go_on(self) -> None:
        """Let it go on."""
        self.child.send_signal(signal.SIGCONT)

    def end(self) -> dict[str, Any]:
        """Return the last line, once it has ended."""
        last = self.until("end")
        self.child.wait(_PATIENCE_S)
        return last


@dataclass
class Board:
    """The folder of one board."""

    folder: Path
    program: Sequence[str | Path] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def field(self) -> Path:
        """What `--field` names."""
        return self.folder / "field"

    @property
    def app(self) -> Path:
        """The folder of the app."""
        return self.field / APP

    def command(self, verb: str, *arguments: str) -> list[str]:
        """Return the words of a call."""
        program = [str(word) for word in self.program or (installer(),)]
        state = ["--state", str(self.folder / "state")] if verb in {"install", "rollback"} else []
        return [*program, verb, *arguments, "--field", str(self.field), *state]

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment of a call."""
        return {"PATH": os.environ["PATH"], "FIELD_NOW": str(NOW), **self.environment, **more}

    def call(
        self, verb: str, *arguments: str, stdin: bytes = b"", **more: str
    ) -> tuple[int, list[dict[str, Any]]]:
        """Run a verb to its end; return its exit code and what it said."""
        done = subprocess.run(
            self.command(verb, *arguments),
            input=stdin,
            capture_output=True,
            env=self.variables(**more),
            timeout=_PATIENCE_S,
        )
        assert not done.stderr, done.stderr
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def trust(self, envelope: Envelope = TRUST) -> None:
        """Give it its first trust."""
        code, lines = self.call("trust", "--first", stdin=envelope.to_bytes())
        assert code == 0, lines

    def install(self, toy: Toy, trusts: Sequence[Envelope] = (TRUST,), **header: object) -> dict[str, Any]:
        """Install a release from a file; return the last line."""
        path = self.folder / "file.edge"
        path.write_bytes(toy.file(trusts, **header))
        code, lines = self.call("install", str(path))
        assert (code == 0) == (lines[-1]["end"] in {"installed", "unchanged"}), (code, lines)
        return lines[-1]

    def begin(self, *words: str, **more: str) -> Install:
        """Begin an installation whose host is the test."""
        child = subprocess.Popen(
            self.command("install", "-", *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.variables(**more),
        )
        return Install(child)

    def status(self) -> dict[str, Any]:
        """Return what the board says of the app; nothing of one that it does not know."""
        code, lines = self.call("status")
        assert code == 0, lines
        return next((app for app in lines[0]["apps"] if app["app"] == APP), {})

    def current(self, link: str = "current") -> str | None:
        """Return the digest that a link names."""
        path = self.app / link
        return path.readlink().name if path.is_symlink() else None

    def journal_lines(self) -> list[str]:
        """Return the lines of the journal."""
        path = self.app / "journal"
        return path.read_text(errors="replace").splitlines() if path.exists() else []

    def journal(self) -> list[dict[str, Any]]:
        """Return the journal's lines."""
        return [json.loads(line) for line in self.journal_lines()]


def new_board(folder: Path, *installed: Toy, program: Path | None = None) -> Board:
    """Return a board that trusts, with releases installed one after the other."""
    board = Board(folder, (program or installer(),))
    board.folder.mkdir(parents=True, exist_ok=True)
    board.trust()
    for toy in installed:
        assert board.install(toy)["end"] == "installed"
    return board


def problem(board: Board, toy: Toy | None) -> str:
    """Return what is wrong with a board on which `toy` should be current, whole; empty if nothing is."""
    # Another statement of a bundle that is there has a folder by its own digest.
    wanted = (toy.digest, toy.statement_digest) if toy else (None,)
    current = board.current()
    if current not in wanted:
        return f"current is {current}, not {wanted[0]}"
    if toy is None or current is None:
        return ""
    release = board.app / "releases" / current
    for name, content in {"release.json": toy.envelope, **toy.parts}.items():
        path = release / name
        if not path.is_file() or sha256(path.read_bytes()) != sha256(content):
            return f"{name} of the current release is damaged"
    code, said = board.call("status")
    if code != 0 or said[0]["apps"][0]["version"] != toy.version:
        return f"status says {said}"
    rests = [path for path in board.app.rglob("*") if path.name.endswith(".new")]
    return f"it left {rests}" if rests else ""
