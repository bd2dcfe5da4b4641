"""Reads event logs while they grow. Lines that are cut short, hostile or of another version are skipped."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from toolchain.events.folder import KEPT, MOST_BYTES, MOST_LINE, is_at_work, log_files
from toolchain.events.lines import LINE, BeganLine, EndLine, Line
from toolchain.files.plain import open_plain

_MOST_READ = 2 * MOST_BYTES  # of a file; ours are smaller
_MOST_LOGS = 4 * KEPT
_CHUNK = 1 << 18  # bytes of a log that one call reads


@dataclass
class _Followed:
    """How much of a log was read."""

    offset: int = 0
    at: float = 0.0  # the moment of the last line
    rest: bytes = b""
    began: bool = False
    ended: bool = False
    broken: bool = False


@dataclass
class Follower:
    """Reads new lines of all logs in a folder.

    Attributes
    ----------
    folder
        The folder, which may not exist yet.
    """

    folder: Path
    _logs: dict[str, _Followed] = field(default_factory=dict)

    def removed(self) -> list[str]:
        """Forget the logs whose files are gone, and return their names."""
        there = {path.name for path in log_files(self.folder)}
        gone = [name for name in self._logs if name not in there]
        for name in gone:
            del self._logs[name]
        return gone

    def read(self) -> dict[str, list[Line]]:
        """Return the lines since the last call by the names of their logs, the oldest log first.

        Of a long log, a part: call again until nothing comes. A log whose command was killed gets an end, at
        the moment of its last line.
        """
        found: dict[str, list[Line]] = {}
        for path in log_files(self.folder)[-_MOST_LOGS:]:
            followed = self._logs.setdefault(path.name, _Followed())
            if followed.ended or followed.broken:
                continue
            try:
                lines = _read_on(path, followed)
            except OSError:  # it is gone, cannot be read, or is no plain file
                followed.broken = path.exists()
                continue
            if lines:
                found[path.name] = lines
        return found


def _read_on(path: Path, followed: _Followed) -> list[Line]:
    lines: list[Line] = []
    with open_plain(path) as file:
        at_work = is_at_work(file.fileno())  # asked first: what it writes before it ends is read below
        file.seek(followed.offset)
        while not lines and (data := file.read(min(_CHUNK, _MOST_READ - followed.offset))):
            followed.offset += len(data)
            *complete, rest = (followed.rest + data).split(b"\n")
            followed.rest = rest[: MOST_LINE + 1]  # a longer line is skipped at its end
            lines += [
                line for each in complete if (line := _parse(each)) is not None and _fits(line, followed)
            ]
        size = os.fstat(file.fileno()).st_size
    everything = followed.offset >= min(size, _MOST_READ)
    if everything and not at_work and followed.began and not followed.ended:
        followed.ended = True
        lines.append(EndLine(at=followed.at, how="killed"))  # when it was killed, nobody has seen
    return lines


def _parse(data: bytes) -> Line | None:
    if len(data) > MOST_LINE:
        return None
    try:
        return LINE.validate_json(data)
    except ValidationError:
        return None


def _fits(line: Line, followed: _Followed) -> bool:
    """Whether a line is where it may be: nothing before the beginning, nothing after the end."""
    if followed.ended or isinstance(line, BeganLine) == followed.began:
        return False
    followed.began = True
    followed.at = line.at
    followed.ended = isinstance(line, EndLine)
    return True
