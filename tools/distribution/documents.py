"""The commands whose JSON documents are promised, and what a document's keys are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TYPED: tuple[tuple[str, ...], ...] = (
    ("init",),
    ("doctor",),
    ("model", "list"),
    ("model", "inspect", "tiny.onnx"),
    ("board", "list"),
    ("board", "show", "rk3399"),  # of a board, some keys depend on its CPU
    ("records", "import", "records.jsonl"),
    ("records", "list"),
    ("records", "best"),
    ("records", "export", "again.jsonl"),
    ("records", "distill", "--dry-run"),
    ("tasks", "tiny.onnx", "--board", "rk3399"),
    ("tune", "tiny.onnx", "--board", "local", "--trials", "1", "--engine", "host"),
    ("build", "tiny.onnx", "--board", "rk3399", "-o", "out", "--engine", "host"),
    ("run", "small.bundle", "--board", "local", "--input", "x=x.npy", "-o", "y.npz"),
    ("verify", "small.bundle", "--board", "local"),
    ("bench", "small.bundle", "--board", "local", "--time", "0.1"),
    ("release", "inspect", "small.bundle"),
    ("release", "verify", "small.bundle", "--trust", "trust.json"),
    ("cache", "list"),
    ("lab", "status"),
    ("board", "show", "no-such-board"),
)
"""What is typed, in this order, in a folder with the files of a version and `write_network`'s network."""


def key_paths(document: Any, before: str = "") -> Iterator[str]:
    """Yield every key of a document with those above it, such as `tasks[].id`; some several times."""
    if isinstance(document, dict):
        for key, value in document.items():
            path = f"{before}.{key}" if before else key
            yield path
            yield from key_paths(value, path)
    elif isinstance(document, list):
        for value in document:
            yield from key_paths(value, f"{before}[]")
