"""Event logs as commands write them, and as nobody should."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAME = "20261127T012056000001-4711-tune.jsonl"
BEGAN: dict[str, Any] = {"event": "began", "at": 1.0, "kind": "tune", "title": "small.onnx", "boards": ["b1"]}


def step(text: str) -> dict[str, Any]:
    """Return a line about a step."""
    return {"event": "step", "at": 2.0, "text": text}


def text_of(*lines: dict[str, Any] | str) -> bytes:
    """Return lines of a log; texts are taken as they are."""
    return b"".join(
        (line if isinstance(line, str) else json.dumps(line)).encode("utf-8", "surrogatepass") + b"\n"
        for line in lines
    )


def write_log(folder: Path, *lines: dict[str, Any] | str, name: str = NAME) -> Path:
    """Write a log that no process holds."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(text_of(*lines))
    return path
