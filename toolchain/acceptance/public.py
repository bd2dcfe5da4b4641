"""Decides which words of a board, of a driver or of this host may be published."""

from __future__ import annotations

import getpass
import re
import socket
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from toolchain.acceptance.found import Hardware
from toolchain.architectures.table import ARCHITECTURES
from toolchain.boards.board import Board
from toolchain.configuration.settings import configuration
from toolchain.models.zoo import ZOO
from toolchain.profiles import shipped_classes

OWN = "own"
"""In place of the name of a class or a network that is the user's."""

_LEAST = 3  # characters of a telling word: shorter ones occur in every name
_LONGEST_WORD = 100
_HARDWARE = TypeAdapter(Hardware)
_SEPARATORS = re.compile(r"[^A-Za-z0-9_-]+")


def telling_words(board: Board) -> frozenset[str]:
    """Return words that tell whose board it is: names, addresses and paths of the board and of this host."""
    texts = [board.name, socket.gethostname(), str(Path.home()), _user()]
    entry = configuration().boards.get(board.name)
    if entry is not None:
        texts += [entry.host, entry.user or "", entry.jump or "", entry.root, *entry.groups]
    found = {word.lower() for text in texts for word in (text, *_SEPARATORS.split(text))}
    return frozenset(word for word in found if len(word) >= _LEAST and word not in _EVERYBODYS)


_EVERYBODYS = frozenset({"home", "root", "usr", "opt", "local", "localhost", "users", *ARCHITECTURES})


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user: in a container
        return ""


def hardware_name(text: str | None, telling: frozenset[str]) -> str | None:
    """Return the name of a CPU or device on one line; None if it has another form or a telling word."""
    if text is None:
        return None
    name = re.sub(r"\s+", " ", text).strip()[:64].strip()
    try:
        _HARDWARE.validate_python(name)
    except ValidationError:
        return None
    lowered = name.lower()
    return None if any(word in lowered for word in telling) else name


def kernel_version(text: str | None) -> str | None:
    """Return the numbers of a kernel's version: what follows them may name who built it."""
    found = re.match(r"\d{1,4}\.\d{1,6}(\.\d{1,6})?", text or "")
    return found[0] if found else None


def class_name(name: str) -> str:
    """Return the name of a class that comes with the toolchain, `own` for another one."""
    return name if name in shipped_classes() or name in ARCHITECTURES else OWN


def network_name(source: str) -> str:
    """Return the name of a zoo network, `own` for a file."""
    name = source.removeprefix("zoo:")
    return name if source.startswith("zoo:") and name in ZOO else OWN


def keyword(text: str) -> str:
    """Return a word of ours in the form of the document, shortened."""
    return re.sub(r"[^A-Za-z0-9_.:+-]", "_", text).lstrip(".:+-")[:_LONGEST_WORD] or "_"
