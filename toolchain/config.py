"""`toolchain.toml`, the environment and the defaults; where each value came from.

Precedence: option > environment (`TOOLCHAIN_…`) > file > default. Options are handled where they
are parsed; this module answers the rest.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolchain.errors import UsageError

FILE_NAME = "toolchain.toml"
ENVIRONMENT_PREFIX = "TOOLCHAIN_"


class Settings(BaseModel):
    """Every key of `toolchain.toml`."""

    model_config = ConfigDict(extra="forbid")

    board: str = Field("local", description="Board or board class used when `--board` is not given.")
    engine: Literal["auto", "host"] = Field("auto", description="Where a step runs.")
    cache_dir: Path = Field(
        Path(platformdirs.user_cache_dir("edge-toolchain")),
        description="Compiled runtimes and zig's cache; `toolchain cache prune` empties it.",
    )
    data_dir: Path = Field(
        Path(platformdirs.user_data_dir("edge-toolchain")),
        description="The store of tuning records.",
    )
    state_dir: Path = Field(
        Path(platformdirs.user_state_dir("edge-toolchain")),
        description="Emulated boards and the running lab; may be deleted when neither runs.",
    )
    jobs: int = Field(
        len(os.sched_getaffinity(0)), ge=1, description="Processes that compile at the same time."
    )
    qemu_aarch64: str = Field(
        "qemu-aarch64-static", description="The user-mode emulator for aarch64 programs."
    )
    sysroot_aarch64: Path = Field(
        Path("/usr/aarch64-linux-gnu"), description="Where the arm64 C library for it lies."
    )
    qemu_arm: str = Field("qemu-arm-static", description="The user-mode emulator for armv7 programs.")
    sysroot_arm: Path = Field(
        Path("/usr/arm-linux-gnueabihf"), description="Where the armhf C library for it lies."
    )
    debian_mirror: str = Field(
        "http://deb.debian.org/debian",
        description="Where the packages for container boards come from; apt checks their signatures.",
    )


@dataclass(frozen=True)
class Configuration:
    """The settings in force, the file they came from, and the origin of every key."""

    settings: Settings
    file: Path | None
    origins: dict[str, str]


def find_file(start: Path) -> Path | None:
    """Return the nearest `toolchain.toml` in `start` or a folder above it."""
    for folder in (start, *start.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    return None


def read_configuration(start: Path, environment: dict[str, str]) -> Configuration:
    """Merge file and environment into settings.

    Raises
    ------
    UsageError
        The file is not TOML, or a key or value is not allowed; names file, key and what is allowed.
    """
    file = find_file(start)
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    if file is not None:
        try:
            values = tomllib.loads(file.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise UsageError(f"{file} cannot be read: {error}", f"edit {file}") from error
        origins.update(dict.fromkeys(values, str(file)))
        # Relative to the file, not to the caller.
        for key in ("cache_dir", "data_dir", "state_dir", "sysroot_aarch64", "sysroot_arm"):
            if isinstance(values.get(key), str):
                values[key] = str(file.parent / Path(values[key]).expanduser())
    for key in Settings.model_fields:
        variable = ENVIRONMENT_PREFIX + key.upper()
        if environment.get(variable):  # set to nothing is not set
            values[key] = environment[variable]
            origins[key] = variable
    try:
        return Configuration(Settings(**values), file, origins)
    except ValidationError as error:
        raise UsageError(*_explain(error, origins)) from error


def _explain(error: ValidationError, origins: dict[str, str]) -> tuple[str, str]:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    where = origins.get(key.split(".")[0], FILE_NAME)
    if first["type"] == "extra_forbidden":
        allowed = ", ".join(sorted(Settings.model_fields))
        return f"{where}: unknown key {key!r}", f"the keys are: {allowed}"
    return f"{where}: {key} = {first['input']!r}: {first['msg']}", f"edit {where}"


@lru_cache(maxsize=1)
def configuration() -> Configuration:
    """Return the configuration for this process's folder and environment, read once."""
    try:
        folder = Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the current folder was removed", "change to another folder: cd") from error
    return read_configuration(folder, dict(os.environ))


def settings() -> Settings:
    """Return the settings in force."""
    return configuration().settings


def cache_dir() -> Path:
    """Return the folder for what can be made again."""
    return settings().cache_dir


def data_dir() -> Path:
    """Return the folder for what cannot be made again: the tuning records."""
    return settings().data_dir


def state_dir() -> Path:
    """Return the folder for what runs: emulated boards, the lab."""
    return settings().state_dir
