"""The journal of a rollout: a file on this host to which each event is appended, and synced."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from toolchain.configuration.settings import state_dir
from toolchain.errors import ToolchainError, UsageError
from toolchain.events.rollouts import CarrierEvent, JournalEvent, RolloutBegan, RolloutEnded
from toolchain.files.atomic import cannot_write, make_private_folder, sync_folder
from toolchain.files.plain import open_plain, read_plain

_EVENT: TypeAdapter[JournalEvent] = TypeAdapter(Annotated[JournalEvent, Field(discriminator="event")])
_MOST_FIRST = 1 << 20  # bytes of a first line, which names every board


def journals_folder() -> Path:
    """Return the folder of all journals."""
    return state_dir() / "rollouts"


def journal_path(rollout: str) -> Path:
    """Return the path of a rollout's journal."""
    return journals_folder() / f"{rollout}.jsonl"


class Journal:
    """A journal that is open for appending; one process at a time writes to it."""

    def __init__(self, path: Path) -> None:
        """Open or make the file, and remove a last line that a crash cut short.

        Raises
        ------
        ToolchainError
            It cannot be written, or another process has it.
        """
        self.path = path
        try:
            make_private_folder(state_dir())
            make_private_folder(path.parent)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = path.read_bytes()
            os.ftruncate(self._handle, content.rfind(b"\n") + 1)
            sync_folder(path.parent)
        except BlockingIOError as error:
            os.close(self._handle)
            raise ToolchainError(
                f"the rollout of {path} is at work in another process", "wait for it, or end it with Ctrl-C"
            ) from error
        except OSError as error:
            os.close(self._handle)
            raise cannot_write(path, error) from error

    def append(self, event: JournalEvent) -> None:
        """Write an event; when this returns, it survives a power cut."""
        try:
            os.write(self._handle, event.model_dump_json().encode() + b"\n")
            os.fsync(self._handle)
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def keep(self, events: Generator[CarrierEvent, None, None]) -> Generator[CarrierEvent, None, None]:
        """Pass the events of a rollout on, each once it is written; the rollout goes on after that alone."""
        with closing(events):
            for event in events:
                if isinstance(event, JournalEvent):
                    self.append(event)
                yield event

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path) -> list[JournalEvent]:
    """Return the events of a journal; a last line that a crash cut short is dropped.

    Raises
    ------
    UsageError
        It cannot be read, or is no journal of a rollout.
    """
    try:
        lines = read_plain(path).split(b"\n")[:-1]
        events = [_EVENT.validate_json(line) for line in lines]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(
            f"{path} is no journal of a rollout: {error.errors()[0]['msg']}",
            f"the journals are in {journals_folder()}",
        ) from error
    if not events or not isinstance(events[0], RolloutBegan):
        raise UsageError(f"{path} is no journal of a rollout", f"the journals are in {journals_folder()}")
    return events


def is_journal(path: Path) -> bool:
    """Whether a file begins like the journal of a rollout."""
    try:
        with open_plain(path) as file:
            return b'"event":"began"' in file.readline(_MOST_FIRST)
    except OSError:
        return False


def known_rollouts(app: str) -> list[tuple[Path, RolloutBegan]]:
    """Return the journals of an application by their first lines, the newest first.

    What does not begin as a journal is skipped.
    """
    rollouts = []
    for path in sorted(journals_folder().glob("*.jsonl"), reverse=True):
        try:
            with open_plain(path) as file:
                first = _EVENT.validate_json(file.readline(_MOST_FIRST))
        except (OSError, ValidationError):
            continue
        if isinstance(first, RolloutBegan) and first.app == app:
            rollouts.append((path, first))
    return rollouts


def beginning(events: Iterable[JournalEvent]) -> RolloutBegan:
    """Return the first event of a journal."""
    first = next(iter(events))
    assert isinstance(first, RolloutBegan)  # noqa: S101 - `read_journal` checked it
    return first


def is_complete(events: list[JournalEvent]) -> bool:
    """Whether the rollout came to its last board."""
    return isinstance(events[-1], RolloutEnded) and events[-1].complete
