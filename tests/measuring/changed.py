"""Bundles with another library, and what lies on boards of this host."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from elftools.elf.elffile import ELFFile

from toolchain.boards.board import Board
from toolchain.boards.local.transport import LocalTransport
from toolchain.bundles.read import Bundle


def root(board: Board) -> Path:
    assert isinstance(board.transport, LocalTransport)
    return board.transport.root


def nothing_left(board: Board) -> bool:
    return board.transport.listing("run") == {}


def with_library(bundle: Bundle, library: bytes) -> Bundle:
    return dataclasses.replace(bundle, library=library)


def code(library: bytes) -> tuple[int, int]:
    """Return where the library's instructions begin and end."""
    text = ELFFile(io.BytesIO(library)).get_section_by_name(".text")
    return text["sh_offset"], text["sh_offset"] + text["sh_size"]


def with_facts(bundle: Bundle, **facts: object) -> Bundle:
    """Return a bundle whose manifest says something else."""
    return dataclasses.replace(bundle, manifest=bundle.manifest.model_copy(update=facts))
