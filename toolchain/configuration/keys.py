"""The keys of `toolchain.toml`: their types, defaults and descriptions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, create_model, model_validator

from toolchain.architectures.rates import BoardRates
from toolchain.architectures.table import LINUX
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.configuration.power import PowerCommands
from toolchain.configuration.table import Table
from toolchain.errors import UsageError
from toolchain.files.atomic import write_text

ENVIRONMENT_PREFIX = "TOOLCHAIN_"
SECRETS = frozenset({"records_url", "power"})
"""Keys whose values may contain a password, which no message shows."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"  # of a board


def _default_folder(of_this_user: Callable[[str], str]) -> Path:
    try:
        return Path(of_this_user("edge-toolchain"))
    except RuntimeError:  # no HOME, and no such user; `_check_home` says so where it matters
        return Path("~")


class _HostSettings(Table):
    """Keys about this host, which come first."""

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


def _emulator_keys() -> dict[str, Any]:
    """Return the keys of each architecture's emulator, with their types and fields for `create_model`."""
    keys: dict[str, Any] = {}
    for row in LINUX.values():
        if row.qemu is None:
            continue
        emulator = Field(
            row.qemu.program,
            description=f"The user-mode emulator for {row.edge_rt or row.name} programs; if it is not there, "
            "without `-static`.",
        )
        folder = Field(Path(row.qemu.sysroot), description=f"Where the {row.debian} C library for it lies.")
        keys[row.qemu.program_key] = (str, emulator)
        keys[row.qemu.sysroot_key] = (Path, folder)
    return keys


if TYPE_CHECKING:
    _EmulatorSettings = _HostSettings
else:
    _EmulatorSettings = create_model("_EmulatorSettings", __base__=_HostSettings, **_emulator_keys())


class Settings(_EmulatorSettings):
    """Every key of `toolchain.toml`."""

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
    image_tag: str = Field(
        "latest",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$",
        description="Tag of this toolchain's images in the engine. Two checkouts with one engine take each "
        "other's images for out of date, and replace them, unless one of them has a tag of its own.",
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
    ssh: Literal["auto", "paramiko", "openssh"] = Field(
        "auto",
        description="Who speaks with its SSH server: `paramiko` in this process, or the `openssh` client, "
        "which accepts the pinned key alone, too; auto: paramiko, and the client where your ssh_config, its "
        "server or the login wants what paramiko lacks. `toolchain board status` says which.",
    )
    groups: tuple[str, ...] = Field((), description="Names under which several boards are deployed to.")
    carrier: str = Field(
        "ssh",
        pattern=r"^[a-z][a-z0-9-]{0,31}$",
        description="What `deploy`, `rollback` and `fleet status` reach it by; others than ssh are plugins.",
    )
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


class Boards(BaseModel):
    """The tables of `toolchain.toml`; the rest of it is `Settings`."""

    boards: dict[Annotated[str, Field(pattern=NAME)], BoardEntry] = {}


# Writes a first `toolchain.toml` with every key, commented out, and its default.


def starter_text(environment: Mapping[str, str] | None = None) -> str:
    """Return the text of the file, generated from the schema of the settings; "" is no value.

    Parameters
    ----------
    environment
        Environment variables, which count more than the file: where one is set, a comment says so. None:
        those of this process.
    """
    environment = os.environ if environment is None else environment
    lines = ["# Settings of the toolchain; found from any folder below this one.", ""]
    for key, field in Settings.model_fields.items():
        default = json.dumps("" if field.default is None else field.default, default=str)
        variable = f"{ENVIRONMENT_PREFIX}{key.upper()}"
        held = (
            [f"# {variable} is set now, and counts instead of this file."] if variable in environment else []
        )
        lines += [f"# {field.description} Also: {variable}", *held, f"# {key} = {default}", ""]
    return "\n".join(lines[:-1]) + "\n"


def write_starter(folder: Path) -> Path:
    """Write the file into `folder` and return its path.

    Raises
    ------
    UsageError
        The file exists already; it is not changed.
    ToolchainError
        The folder cannot be written.
    """
    file = folder.absolute() / FILE_NAME
    if file.exists():
        raise UsageError(f"{file} exists already and was not changed", f"edit {file}, or move it away first")
    write_text(file, starter_text())
    return file
