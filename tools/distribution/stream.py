"""Talks to edge-rt as hosts do on the stream (docs/release-format.md), and collects the keys of its answers.

`tools.distribution.keep` writes them for a version, with what its hosts send. Later versions of edge-rt must
answer that alike: tests/distribution/test_promises.py.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.distribution.sent import APP, ARCH, Sent

_LONGEST_S = 60.0  # of an answer, on a busy machine
_WORDS = ("step", "end", "state", "code", "kind")
"""Keys whose words mean something to hosts: the words are kept, and of other values the types."""
_TYPES = {str: "string", int: "integer", bool: "boolean", type(None): "null", list: "array", dict: "object"}


@dataclass
class Conversation:
    """Requests of a host to a board without releases.

    Attributes
    ----------
    program
        The board's edge-rt.
    folder
        Its folder, which is empty.
    answers
        The exit code of each request, and what `keys` returns of its lines.
    """

    program: Path
    folder: Path
    sent: Sent
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def hold(self) -> dict[str, dict[str, Any]]:
        """Install, go back and recover, each also where it fails; return the answers."""
        self._ask("status: new board", "status")
        self._ask("trust: not an envelope", "trust", b"{}")
        self._install("install: no trust", "first")
        self._ask("trust", "trust", self.sent.trust)
        self._ask("install: not a release", "install", b"edge-release 9\n")
        self._install("install: another class", "class")
        self._install("install: damaged", "first", damaged=True)
        self._install("install: link broke", "first", cut=True)
        self._ask("status: link broke", "status")
        self._install("install: resumed", "first")
        self._install("install: again", "first")
        self._ask("status: installed", "status")
        self._ask("rollback: no other release", "rollback")
        self._cut_power()
        self._install("install: newer", "second")
        self._install("install: older", "first")
        self._ask("rollback", "rollback")
        self._policy(health=["true"])
        self._ask_file("install: file")
        self._ask("rollback: file", "rollback")
        self._policy(health=["false"])
        self._install("install: not healthy", "second")
        self._ask("status: not healthy", "status")
        for library in self.folder.glob(f"field/{APP}/current/library.so"):
            library.write_bytes(b"damaged")
        self._install("install: not healthy, older one damaged", "second")
        self._ask("status: broken", "status")
        self._ask("recover: broken", "recover")
        self._policy(health=["true"])
        self._install("install: mended", "second")
        self._ask("prune", "prune")
        return self.answers

    def _cut_power(self) -> None:
        """Kill edge-rt while it receives an update; ask what it says before and after."""
        with self._started("install") as update:
            _write(update, self.sent.heads["second"])
            for line in update.stdout or ():
                if b'"need"' in line:
                    break
            self._ask("status: at work", "status")
            self._install("install: busy", "second")
            update.kill()
        self._ask("status: cut", "status")
        self._ask("recover", "recover")

    def _policy(self, **policy: Any) -> None:
        path = self.folder / "field" / APP / "policy.json"
        path.write_text(json.dumps({"class": ARCH, "health_tries": 1, **policy}))
        path.chmod(0o644)

    def _ask(self, name: str, verb: str, data: bytes = b"") -> None:
        with self._started(verb) as asked:
            _write(asked, data, last=True)
            self._take(name, asked, list(asked.stdout or ()))

    def _ask_file(self, name: str) -> None:
        file = self.folder / "tiny.edge"
        file.write_bytes(self.sent.heads["file"] + b"".join(self.sent.parts["file"]))
        with self._started("install", str(file)) as asked:
            self._take(name, asked, list(asked.stdout or ()))

    def _install(self, name: str, head: str, *, cut: bool = False, damaged: bool = False) -> None:
        """Send a release with the parts that the board asks for.

        Parameters
        ----------
        cut
            End the stream in the middle of the first part.
        damaged
            Send zeros as parts.
        """
        with self._started("install") as asked:
            lines = []
            _write(asked, self.sent.heads[head])
            for line in asked.stdout or ():
                lines.append(line)
                for index, offset in json.loads(line).get("need", ()):
                    part = self.sent.parts[head][index][offset:]
                    if cut:
                        _write(asked, part[: len(part) // 2], last=True)
                        break
                    _write(asked, bytes(len(part)) if damaged else part)
            self._take(name, asked, lines)

    def _take(self, name: str, asked: subprocess.Popen[bytes], lines: list[bytes]) -> None:
        self.answers[name] = {"code": asked.wait(), "says": keys([json.loads(line) for line in lines])}

    @contextmanager
    def _started(self, verb: str, file: str = "-") -> Iterator[subprocess.Popen[bytes]]:
        words = [file if word == "-" else word for word in self.sent.words[verb]]
        with subprocess.Popen(
            [self.program, *words],
            bufsize=0,  # what a program that has gone does not take is lost
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as started:
            watch = threading.Timer(_LONGEST_S, started.kill)
            watch.start()
            try:
                yield started
            finally:
                watch.cancel()
                started.kill()


def keys(lines: list[Any]) -> dict[str, str]:
    """Return the keys of lines with those above them, such as `cause.code`, each with its types or words."""
    found: dict[str, set[str]] = {}
    for line in lines:
        for path, kind in _kinds(line, ""):
            found.setdefault(path, set()).add(kind)
    return {path: " ".join(sorted(kinds)) for path, kinds in sorted(found.items())}


def lost(before: dict[str, dict[str, Any]], today: dict[str, dict[str, Any]]) -> list[str]:
    """Return the answers that another code ends, or that lack a key or give it another type or word."""
    found = []
    for name, answer in before.items():
        now = today[name]
        if now["code"] != answer["code"]:
            found.append(f"{name}: the exit code is {now['code']}, it was {answer['code']}")
        for path, kinds in answer["says"].items():
            said = now["says"].get(path, "missing")
            if not set(said.split()) <= set(kinds.split()):
                found.append(f"{name}: {path} is {said}, it was {kinds}")
    return found


def _kinds(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if path:
        said = isinstance(value, str) and path.rpartition(".")[2] in _WORDS
        yield path, value if said else _TYPES[type(value)]
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _kinds(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds(inner, f"{path}[]")


def _write(asked: subprocess.Popen[bytes], data: bytes, *, last: bool = False) -> None:
    """Write to a program, which may have gone; its answer says why."""
    assert asked.stdin  # noqa: S101 - it was started with a pipe
    try:
        asked.stdin.write(data)
        asked.stdin.flush()
        if last:
            asked.stdin.close()
    except BrokenPipeError:
        pass
