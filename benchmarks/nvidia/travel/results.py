"""The file of results: complete after each row, or as it was before; a second run goes on with it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel.stop import Stop

VERSION = 1


class Results:
    """Rows that were measured, in a file."""

    def __init__(self, file: Path, pack_id: str) -> None:
        """Read the file if there is one.

        Raises
        ------
        Stop
            It holds results of another pack, or something else.
        """
        self.file = file
        self.document: dict[str, Any] = {"version": VERSION, "pack": pack_id, "runs": [], "rows": {}}
        if file.exists():
            try:
                found = json.loads(file.read_text())
                known = found["version"] == VERSION and found["pack"] == pack_id
                whole = isinstance(found["rows"], dict) and isinstance(found["runs"], list)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise Stop(f"{file} holds no results: {error}; name another file by --out") from error
            if not (known and whole):
                raise Stop(f"{file} holds results of another pack: name another file by --out")
            self.document = found

    def has(self, key: str, *, measured: bool = False) -> bool:
        """Whether a row was measured; or failed by itself, unless only `measured` ones count."""
        row = self.document["rows"].get(key)
        return row is not None and (not measured or row["status"] == "measured")

    @property
    def launches(self) -> dict[str, Any]:
        """The row about launches and barriers; empty until there is one."""
        return dict(self.document.get("launches", {}))

    def begin(self, facts: dict[str, Any]) -> None:
        """Add a run with facts about the machine, and write the file.

        Raises
        ------
        Stop
            Its rows are of another kind of GPU: ratios of times would mix the two.
        """
        runs = self.document["runs"] if self.document["rows"] or self.launches else []
        if other := {name for run in runs for name in _gpu_of(run)} - set(_gpu_of(facts)):
            raise Stop(
                f"{self.file} holds results of {', '.join(sorted(other))}, and here is "
                f"{', '.join(_gpu_of(facts)) or 'no GPU'}: name another file by --out"
            )
        self.document["runs"].append(facts)
        self.write()

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Add a row, and write the file."""
        self.document["rows"][key] = row
        self.write()

    def add_launches(self, row: dict[str, Any]) -> None:
        """Add the row about launches and barriers, and write the file."""
        self.document["launches"] = row
        self.write()

    def write(self) -> None:
        """Replace the file.

        Raises
        ------
        Stop
            It cannot be written.
        """
        folder = self.file.parent
        try:
            handle, name = tempfile.mkstemp(dir=folder, prefix=f".{self.file.name}.")
            try:
                with os.fdopen(handle, "w") as opened:
                    json.dump(self.document, opened, indent=1)
                    opened.flush()
                    os.fsync(opened.fileno())
                os.replace(name, self.file)  # noqa: PTH105 - as one with mkstemp
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise Stop(f"cannot write {self.file}: {error}") from error


def _gpu_of(facts: dict[str, Any]) -> list[str]:
    """Return the name of the GPU of a run, if it had one."""
    return list(facts.get("cuda", {}).get("names", []))[:1]
