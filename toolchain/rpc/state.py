"""The state file of a running lab."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from toolchain.configuration.settings import state_dir
from toolchain.files.atomic import write_text
from toolchain.processes.life import Life


@dataclass(frozen=True)
class LabState:
    """The content of `lab.json`: the supervisor, the tracker's port, and the tracker key of each board."""

    supervisor: Life
    port: int
    boards: dict[str, str]


def folder() -> Path:
    """Return the lab's folder; it may be deleted at any time, which ends the lab."""
    return state_dir().absolute() / "lab"


def state_file(where: Path) -> Path:
    """Return the path of the state file in the lab's folder."""
    return where / "lab.json"


def write_state(where: Path, state: LabState) -> None:
    """Write the state file of a running lab."""
    write_text(state_file(where), json.dumps(asdict(state), indent=2) + "\n")


def read_state(where: Path) -> LabState | None:
    """Return the state of the lab; None if it has no valid state file or its supervisor has ended."""
    try:
        found = json.loads(state_file(where).read_text())
        state = LabState(Life(**found["supervisor"]), int(found["port"]), dict(found["boards"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return state if state.supervisor.lasts() else None
