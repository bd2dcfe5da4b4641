"""The file in which a running lab says that it runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from toolchain.configuration.settings import state_dir
from toolchain.files.atomic import write_text
from toolchain.processes.life import Life


@dataclass(frozen=True)
class LabState:
    """What `lab.json` says: who supervises, the tracker's port, the tracker key of each board."""

    supervisor: Life
    port: int
    boards: dict[str, str]


def folder() -> Path:
    """Return the lab's folder; it may be deleted at any time, which ends the lab."""
    return state_dir().absolute() / "lab"


def state_file(where: Path) -> Path:
    """Return the file in the lab's folder that says whether it runs."""
    return where / "lab.json"


def write_state(where: Path, state: LabState) -> None:
    """Say that the lab runs."""
    write_text(state_file(where), json.dumps(asdict(state), indent=2) + "\n")


def read_state(where: Path) -> LabState | None:
    """Return what the lab says; None where it says nothing or its supervisor is gone."""
    try:
        found = json.loads(state_file(where).read_text())
        state = LabState(Life(**found["supervisor"]), int(found["port"]), dict(found["boards"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return state if state.supervisor.lasts() else None
