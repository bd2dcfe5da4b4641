"""Merges `toolchain.toml`, the environment and the defaults, and keeps the origin of each value.

Precedence: option > environment (`TOOLCHAIN_…`) > file > default. Commands handle options themselves; this
module handles the rest.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from toolchain.architectures.rates import BoardRates
from toolchain.configuration.file import FILE_NAME, find_file
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.configuration.power import PowerCommands
from toolchain.configuration.table import Table, reason_of
from toolchain.errors import MissingError, UsageError
from toolchain.foreign import printable, shortened

_FOLDERS = ("cache_dir", "data_dir", "state_dir", "sysroot_aarch64", "sysroot_arm", "tls_authorities")
ENVIRONMENT_PREFIX = "TOOLCHAIN_"
SECRETS = frozenset({"records_url", "power"})
"""Keys whose values may contain a password, which no message shows."""
_IN_ENTRY = 3  # boards, the board's name, a key of its entry: a longer place is in a table of it
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"  # of a board


def _default_folder(of_this_user: Callable[[str], str]) -> Path:
    try:
        return Path(of_this_user("edge-toolchain"))
    except RuntimeError:  # no HOME, and no such user; `_check_home` says so where it matters
        return Path("~")


class Settings(Table):
    """Every key of `toolchain.toml`."""

    board: str = Field("local", description="Board or board class used when `--board` is not given.")
    engine: Literal["auto", "docker", "host"] = Field(
        "auto", description="Where `build` and `tune` run; auto: in a container if its image is there."
    )
    cache_dir: Path = Field(
        _default_folder(platformdirs.user_cache_dir),
        description="Compiled runtimes and functions, and zig's cache; `toolchain cache prune` empties it.",
    )
    data_dir: Path = Field(
        _default_folder(platformdirs.user_data_dir),
        description="The store of tuning records, which cannot be made again; which bundles passed `verify`.",
    )
    records_url: SecretStr | None = Field(
        None,
        description="A team's store of tuning records, on PostgreSQL: `postgresql://USER@HOST/DATABASE`; its "
        "password is better kept in `~/.pgpass`. Needs `edge-toolchain[postgres]`. Default: a file.",
    )
    state_dir: Path = Field(
        _default_folder(platformdirs.user_state_dir),
        description="Emulated boards, the running lab, event logs, unfinished acceptances, journals of "
        "rollouts. Stop the lab and the emulated boards before you delete it. Without the journals earlier "
        "rollouts cannot be resumed or reported, and this host no longer refuses a version older than one it "
        "rolled out; each board still refuses what is older than the newest it ran.",
    )
    jobs: int = Field(
        len(os.sched_getaffinity(0)), ge=1, le=4096, description="Processes that compile at the same time."
    )
    qemu_aarch64: str = Field(
        "qemu-aarch64-static",
        description="The user-mode emulator for aarch64 programs; if it is not there, without `-static`.",
    )
    sysroot_aarch64: Path = Field(
        Path("/usr/aarch64-linux-gnu"), description="Where the arm64 C library for it lies."
    )
    qemu_arm: str = Field(
        "qemu-arm-static", description="The user-mode emulator for armv7 programs; likewise."
    )
    sysroot_arm: Path = Field(
        Path("/usr/arm-linux-gnueabihf"), description="Where the armhf C library for it lies."
    )
    debian_mirror: str | None = Field(
        None,
        description="Where Debian's packages for images and container boards come from; apt checks their "
        "signatures. Default: apt's own mirror on this machine, else Debian's.",
    )
    debian_image: str | None = Field(
        None,
        pattern=r"^\S+@sha256:[0-9a-f]{64}$",
        description="A registry's Debian image, pinned (`NAME@sha256:…`), that images stand on; default: one "
        "made from Debian's packages.",
    )
    package_index: str | None = Field(
        None, description="The package index for the wheels in images; default: pip's own configuration."
    )
    unchecked_peers: bool = Field(
        False,
        description="Whether the lab and `toolchain ui` accept a connection when this system does not show "
        "which account opened it. If so, the lab's servers on boards accept every account, too. By default "
        "such connections are refused; one that is seen to be another account's is always refused here.",
    )
    tls_authorities: Path | None = Field(
        None,
        description="A folder of certificates (`*.crt`) to trust while images are made; none stays in one.",
    )


THIS_HOST = "local"
"""In place of a host and of a class: this machine, without SSH."""


class BoardEntry(Table):
    """Every key of `[boards.NAME]`, which describes a board over SSH, or one device of this host."""

    model_config = ConfigDict(frozen=True)

    board_class: str = Field(alias="class", description="Its board class.")
    host: str = Field(
        pattern=r"^[A-Za-z0-9_.:][A-Za-z0-9_.:%-]*$",
        description='Name, address, or a `Host` of your ssh_config; `local`, with `class = "local"`: this '
        "machine, without SSH.",
    )
    port: int | None = Field(None, ge=1, le=65535, description="Default: ssh_config's, else 22.")
    user: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_.][A-Za-z0-9_.@+$-]*$", description="Default: ssh_config's, else yours."
    )
    host_key: str = Field(
        "",
        pattern=r"^[a-z0-9@.-]+ [A-Za-z0-9+/=]+$",
        description="The pinned key of its SSH server, such as `ssh-ed25519 AAAA…`, as `toolchain board add` "
        "writes it; no other is accepted. Needed but for this machine.",
    )
    device: str | None = Field(
        None,
        pattern=r"^[a-z0-9-]{1,32}:[0-9]{1,4}$",
        description="The one device of its kind that this board computes on, such as `cuda:1`, counted as "
        "`toolchain board show --devices` lists them; several GPUs of a machine are several boards by it. "
        "Default: all.",
    )
    identity: Path | None = Field(
        None,
        description="The private key to log in with; default: the agent's, ssh_config's, the usual ones.",
    )
    jump: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.\[][A-Za-z0-9_.:@,%+\[\]-]*$",
        description="`[USER@]HOST[:PORT]` to go through; default: ssh_config's ProxyJump.",
    )
    groups: tuple[str, ...] = Field((), description="Names under which several boards are deployed to.")
    root: str = Field(
        ".edge-toolchain",
        min_length=1,
        description="The installation's folder there, relative to the login's home.",
    )

    power: PowerCommands | None = Field(
        None, description="A table: the commands that switch its power (below)."
    )
    labgrid: LabgridPlace | None = Field(
        None,
        description="A table: its place at a labgrid coordinator (below). It switches it without `power`.",
    )
    rates: BoardRates | None = Field(
        None, description="A table: how fast its cores are, as `toolchain board probe` measured and wrote it."
    )

    @model_validator(mode="after")
    def _check_way(self) -> BoardEntry:
        if (self.host == THIS_HOST) != (self.board_class == THIS_HOST):
            raise ValueError('this machine has `class = "local"` and `host = "local"`, other hosts neither')
        if not self.host_key and self.host != THIS_HOST:
            raise ValueError("host_key is missing: `toolchain board add` asks the host for it")
        if self.labgrid and self.host == THIS_HOST:
            raise ValueError("`labgrid` is for other machines")
        if self.power and self.host == THIS_HOST:
            raise ValueError("`power` is for other machines: this one cannot switch itself on again")
        return self


class _File(BaseModel):
    """The tables of `toolchain.toml`; the rest of it is `Settings`."""

    boards: dict[Annotated[str, Field(pattern=NAME)], BoardEntry] = {}


@dataclass(frozen=True)
class Configuration:
    """The effective settings, their file, the origin of every key, and the user's boards.

    Attributes
    ----------
    skipped
        Warnings about files of other users.
    """

    settings: Settings
    file: Path | None
    origins: dict[str, str]
    boards: dict[str, BoardEntry] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


def read_configuration(start: Path, environment: dict[str, str]) -> Configuration:
    """Merge file and environment into settings.

    Raises
    ------
    UsageError
        The file belongs to another user or is not TOML, or a key or value is not allowed; the message names
        the file, the key and what is allowed.
    """
    file, skipped = find_file(start, environment)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    if file is not None:
        try:
            values = tomllib.loads(file.read_text())
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}", f"see `ls -ld {file}`") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{file} cannot be read: it is not text in UTF-8", f"edit {file}") from error
        except (ValueError, RecursionError) as error:  # also a number of 5000 digits
            raise UsageError(f"{file} cannot be read: it is not TOML: {error}", f"edit {file}") from error
        origins.update(dict.fromkeys(values, str(file)))
        # Relative to the file, not to the caller.
        for key in _FOLDERS:
            if isinstance(values.get(key), str) and values[key]:
                values[key] = str(file.parent / _expanded(file, key, Path(values[key])))
    for key in Settings.model_fields:
        variable = ENVIRONMENT_PREFIX + key.upper()
        if environment.get(variable):
            values[key] = environment[variable]
            origins[key] = variable
        if values.get(key) == "":  # an empty value counts as not set
            values[key] = Settings.model_fields[key].get_default()
    origins.pop("boards", None)
    try:
        tables = _File(boards=values.pop("boards", {}))
        found = Configuration(Settings(**values), file, origins, _resolved(tables.boards, file), skipped)
    except ValidationError as error:
        raise UsageError(*_explain(error, origins, file)) from error
    _check_home(found)
    return found


def _check_home(found: Configuration) -> None:
    """Raise an error if a default folder is needed but the user has no home folder."""
    for key in ("cache_dir", "data_dir", "state_dir"):
        folder = getattr(found.settings, key)
        if found.origins[key] == "default" and not folder.is_absolute():
            raise MissingError(
                f"this user has no home folder, which {key} would be in",
                f"set HOME, or {key} in {FILE_NAME}, or {ENVIRONMENT_PREFIX}{key.upper()}",
            )


def _expanded(file: Path, key: str, path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        said = shortened(repr(str(path)))
        raise UsageError(f"{file}: {key} = {said}: there is no such home folder", f"edit {file}") from error


def _resolved(boards: dict[str, BoardEntry], file: Path | None) -> dict[str, BoardEntry]:
    """Make the paths of identities and of power commands absolute; in the file they are relative to it."""
    if file is None:
        return boards
    found = {}
    for name, entry in boards.items():
        changed: dict[str, Any] = {}
        if entry.identity:
            changed["identity"] = _absolute(file, f"boards.{name}.identity", entry.identity)
        if entry.power:
            changed["power"] = entry.power.resolved(partial(_absolute, file, f"boards.{name}.power"))
        found[name] = entry.model_copy(update=changed) if changed else entry
    return found


def _absolute(file: Path, key: str, path: Path) -> Path:
    return file.parent / _expanded(file, key, path)


def _explain(error: ValidationError, origins: dict[str, str], file: Path | None) -> tuple[str, str]:
    errors = error.errors()
    # An unknown key may be the one that is missing, misspelt.
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    key = printable(".".join(str(part) for part in first["loc"] if part != "[key]"))
    in_board = first["loc"][:1] == ("boards",)
    where = str(file) if in_board else origins.get(str(first["loc"][0]) if first["loc"] else "", FILE_NAME)
    if first["type"] in ("extra_forbidden", "missing"):
        keys = _keys_beside(first["loc"]) if in_board else [*Settings.model_fields]
        problem = f"unknown key '{key}'" if first["type"] == "extra_forbidden" else f"{key} is missing"
        import difflib

        near = difflib.get_close_matches(str(first["loc"][-1]), keys, n=1)
        meant = f"did you mean {near[0]!r}? " if near and first["type"] == "extra_forbidden" else ""
        return f"{where}: {problem}", f"{meant}the keys are: {', '.join(sorted(keys))}"
    said = shown_value(first["loc"], first["input"])
    problem = reason_of(first)
    if first["type"] == "string_pattern_mismatch" and (meaning := _meaning(first["loc"])):
        problem = f"wanted: {meaning}"
    is_variable = where.startswith(ENVIRONMENT_PREFIX)
    change = f"set {where} to something else, or unset it" if is_variable else f"edit {where}"
    return f"{where}: {key} = {said}: {problem}", change


def _meaning(place: tuple[int | str, ...]) -> str:
    """Return what the reference says of a key, or of a board's; empty if it is in a table of its own."""
    if place[-1] == "[key]":
        return "a board's name: up to 63 letters, digits, '_', '.' and '-', first a letter or digit"
    keys = {1: Settings.model_fields, _IN_ENTRY: _entry_keys()}.get(len(place), {})
    field = keys.get(str(place[-1]))
    return (field.description or "") if field else ""


def _keys_beside(place: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the table of a board in which `place` is."""
    tables: dict[object, type[BaseModel]] = {"power": PowerCommands, "labgrid": LabgridPlace}
    if len(place) > _IN_ENTRY and place[2] in tables:
        return [*tables[place[2]].model_fields]
    return [*_entry_keys()]


def _entry_keys() -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in BoardEntry.model_fields.items()}


def shown_value(place: tuple[int | str, ...], value: object) -> str:
    """Return a wrong value for a message; what may hold a password, and a whole board, is left out."""
    of_a_board = place[:1] == ("boards",) and isinstance(value, dict)
    secret = of_a_board or bool(SECRETS.intersection(map(str, place)))
    return "…" if secret else shortened(repr(value))


@lru_cache(maxsize=1)
def configuration() -> Configuration:
    """Return the configuration for this process's folder and environment, read once."""
    try:
        folder = Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the current folder was removed", "change to another folder: cd") from error
    return read_configuration(folder, dict(os.environ))


def settings() -> Settings:
    """Return the effective settings."""
    return configuration().settings


def cache_dir() -> Path:
    """Return the folder for files that can be made again."""
    return settings().cache_dir


def data_dir() -> Path:
    """Return the folder for files that cannot be made again: the tuning records."""
    return settings().data_dir


def state_dir() -> Path:
    """Return the folder for the state of running things: emulated boards and the lab."""
    return settings().state_dir
