"""The stored state of emulated boards: a file for each, in the state directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from toolchain.boards.emulation.containers import ContainerBoard
from toolchain.boards.emulation.guest import Guest
from toolchain.boards.emulation.system.board import SystemBoard
from toolchain.configuration.settings import state_dir
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic


class BoardState(BaseModel):
    """The content of `board.json`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_version: Literal[1] = 1
    name: str
    board_class: str
    kind: Literal["process", "container", "system"] = "process"
    container: ContainerBoard | None = None
    system: SystemBoard | None = None
    device: str = ""  # kind of device whose driver the board has
    groups: tuple[str, ...] = ()  # names under which it is deployed to together with others

    @property
    def guest(self) -> Guest | None:
        """The container or machine behind a port of this host; None for a board that is a process."""
        return self.container or self.system

    @property
    def start_command(self) -> str:
        """Command that starts such a board."""
        words = ["toolchain board emulate start", self.board_class, "--kind", self.kind, "--name", self.name]
        if self.device:
            words.append(f"--{self.device}")
        return " ".join([*words, *(word for group in self.groups for word in ("--group", group))])

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, values: Any) -> Any:
        if isinstance(values, dict) and "opencl" in values:  # files from before `device`
            values = dict(values)
            values["device"] = "opencl" if values.pop("opencl") else ""
        return values


def names() -> list[str]:
    """Return the names of all emulated boards, broken ones included, sorted."""
    folder = boards_folder()
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def names_in_group(group: str) -> list[str]:
    """Return the names of the emulated boards of a group, sorted; broken boards are in none."""
    return [name for name in names() if group in groups_of(name)]


def groups_of(name: str) -> tuple[str, ...]:
    """Return the groups of an emulated board; none if it is broken."""
    try:
        return read_state(name).groups
    except ToolchainError:
        return ()


def boards_folder() -> Path:
    """Return the folder of all emulated boards."""
    return state_dir() / "emulated"


def read_state(name: str) -> BoardState:
    """Return the stored state of a board.

    Raises
    ------
    UsageError
        There is no emulated board of that name.
    ToolchainError
        Its file cannot be read, or is broken.
    """
    file = boards_folder() / name / "board.json"
    if name not in names():
        raise unknown_board(name)
    try:
        return BoardState.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ToolchainError(f"board {name}: {file}: {error.strerror}", removal_hint(name)) from error
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise ToolchainError(f"board {name}: {file} is broken: {problem}", removal_hint(name)) from error


def write_state(folder: Path, state: BoardState) -> None:
    """Write the state of a board into its folder, atomically."""
    document = state.model_dump(exclude_none=True)
    if not state.groups:  # versions before groups refuse a key that they do not know
        del document["groups"]
    text = json.dumps(document, indent=1)
    atomic.write_text(folder / "board.json", text + "\n", mode=0o600)


def known_containers() -> dict[str, str | None]:
    """Return the container of every board: empty for a process or a machine, None for a broken one."""
    known: dict[str, str | None] = {}
    for name in names():
        try:
            state = read_state(name)
        except ToolchainError:
            known[name] = None
            continue
        known[name] = state.container.id if state.container else ""
    return known


def removal_hint(name: str) -> str:
    """Return a hint how to remove a broken board."""
    return f"remove it: `toolchain board emulate stop {name}`, then start it again"


def unknown_board(name: str) -> UsageError:
    """Return the error for a name that no emulated board has."""
    known = f"the emulated boards are: {', '.join(names())}" if names() else "there is none now"
    return UsageError(
        f"there is no emulated board {name!r}",
        f"{known}; `toolchain board emulate start CLASS` starts one",
    )
