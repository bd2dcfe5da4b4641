"""Board classes: the schema of `boards/*/board.toml`."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import PydanticKnownError

from toolchain.architectures.architecture import Architecture
from toolchain.architectures.rates import ClusterRates
from toolchain.architectures.table import architecture_names, architecture_of, wrong_system
from toolchain.devices.device import Device
from toolchain.devices.entry import Entry
from toolchain.devices.table import kind_names
from toolchain.errors import UsageError

PROFILE_FILE = "board.toml"
_TRIPLE_PARTS = 4


def _four_parts(triple: str) -> str:
    # LLVM does not normalise mtriple: with three parts, system and environment are unknown to it.
    if len(triple.split("-")) != _TRIPLE_PARTS:
        raise ValueError("a triple has four parts, such as aarch64-unknown-linux-gnu")
    if problem := wrong_system(triple):
        raise ValueError(problem)
    return triple


def _has_glibc(glibc: str | None, info: ValidationInfo) -> str | None:
    triple = info.data.get("triple", "")  # none where it is wrong itself
    if not triple:
        return glibc
    row = architecture_of(triple)
    android = row is not None and row.android
    if android and glibc is not None:
        raise ValueError("Android has another C library: leave this line out")
    if not android and glibc is None:
        raise PydanticKnownError("missing")
    return glibc


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cluster(_Strict):
    """Cores of one kind, which share their clock and caches."""

    cpu: str = Field(description="LLVM's name of the core, such as cortex-a72")
    cores: int = Field(ge=1, description="how many of them")
    rates: ClusterRates | None = Field(
        None, description="what `toolchain board probe` measured on a board of the class"
    )


class Profile(_Strict):
    """A kind of hardware.

    The first cluster is the one that tuning, builds and measurements use unless told otherwise.
    """

    name: str
    description: str
    triple: Annotated[str, AfterValidator(_four_parts)]
    clusters: tuple[Cluster, ...] = Field(min_length=1)
    features: tuple[str, ...] = Field((), description="LLVM features beyond the cpu's, e.g. +neon")
    optional: tuple[str, ...] = Field(
        (), description="LLVM features that the boards have and only some code needs: +avx512fp16"
    )
    glibc: Annotated[str | None, AfterValidator(_has_glibc)] = Field(
        None,
        pattern=r"^\d+\.\d+$",
        validate_default=True,
        description="the oldest C library on such boards; none on Android",
    )
    memory_mib: int = Field(ge=1)
    devices: tuple[Entry, ...] = Field((Device(),), min_length=1)
    image: str = Field("base", description="of docker/images.toml: in which its networks are built and tuned")

    @property
    def arch(self) -> str:
        """First part of the triple: x86_64, aarch64, armv7a."""
        return self.triple.split("-")[0]

    @property
    def android(self) -> bool:
        """Whether such boards run Android: networks are built for them, and run by an app there."""
        row = architecture_of(self.triple)
        return row is not None and row.android

    @property
    def architecture(self) -> Architecture:
        """The row of its architecture.

        Raises
        ------
        UsageError
            There is none.
        """
        row = architecture_of(self.triple)
        if row is None:
            known = ", ".join(sorted(architecture_names()))
            raise UsageError(
                f"board class {self.name}: triple {self.triple!r} is not supported", f"known are: {known}"
            )
        return row

    def cluster(self, cpu: str | None) -> Cluster:
        """Return the cluster of that cpu, the first one for None.

        Raises
        ------
        UsageError
            No cluster of this class has such cores.
        """
        if cpu is None:
            return self.clusters[0]
        for cluster in self.clusters:
            if cluster.cpu == cpu:
                return cluster
        known = ", ".join(cluster.cpu for cluster in self.clusters)
        raise UsageError(f"--cluster {cpu}: board class {self.name} has no such cores", f"it has: {known}")

    def device(self, kind: str) -> Device:
        """Return the device of that kind.

        Raises
        ------
        UsageError
            Boards of this class have none.
        """
        for device in self.devices:
            if device.kind == kind:
                return device
        known = ", ".join(device.kind for device in self.devices)
        hint = f"it has: {known}"
        if kind not in kind_names():
            hint += f"; the kinds of devices are: {', '.join(kind_names())}"
        raise UsageError(f"--device {kind}: board class {self.name} has no such device", hint)


_TABLES: dict[str, type[BaseModel]] = {"clusters": Cluster, "devices": Device}


def profile_folders() -> tuple[Path, ...]:
    """Return where board classes are looked for: the project's `boards/`, then the shipped ones."""
    from toolchain.configuration.settings import configuration

    file = configuration().file
    own = (file.parent / "boards",) if file else ()
    return (*own, _shipped_folder())


def _shipped_folder() -> Path:
    package = Path(__file__).parent
    shipped = package / "boards_shipped"  # in a wheel; beside the package in a checkout
    return shipped if shipped.is_dir() else package.parent / "boards"


def shipped_classes() -> frozenset[str]:
    """Return the names of the board classes that come with the toolchain."""
    return frozenset(path.parent.name for path in _shipped_folder().glob(f"*/{PROFILE_FILE}"))


def class_names() -> list[str]:
    """Return the names of all board classes, sorted."""
    found = {p.parent.name for folder in profile_folders() for p in folder.glob(f"*/{PROFILE_FILE}")}
    return sorted(found)


def load_profile(name: str) -> Profile:
    """Return the board class `name`.

    Raises
    ------
    UsageError
        There is no such class, or its file is wrong; names file, key and allowed values.
    """
    for folder in profile_folders():
        file = folder / name / PROFILE_FILE
        if re.fullmatch(r"[A-Za-z0-9_.-]+", name) and file.is_file():
            return read_profile(file)
    near = difflib.get_close_matches(name, class_names(), n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise UsageError(f"no board class {name!r}", f"{meant}the classes are: {', '.join(class_names())}")


def read_profile(file: Path) -> Profile:
    """Read and check one `board.toml`; the class is named by its folder.

    Raises
    ------
    UsageError
        Unreadable, not TOML, or a key or value that is not allowed.
    """
    try:
        values = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}", f"edit {file}") from error
    try:
        profile = Profile(**{"name": file.parent.name, **values})
    except ValidationError as error:
        raise UsageError(_explain(file, error), f"edit {file}") from error
    return profile.model_copy(update={"devices": tuple(_found(file, each) for each in profile.devices)})


def _found(file: Path, device: Device) -> Device:
    """Return a device with the whole path of its configuration, where that is a file."""
    if device.config is None or not device.config.endswith(".json"):
        return device
    beside = file.parent.absolute() / device.config
    if not beside.is_file():
        raise UsageError(
            f"{file}: devices: config: {device.config!r}: no such file beside it", f"edit {file}"
        )
    return device.model_copy(update={"config": str(beside)})


def _explain(file: Path, error: ValidationError) -> str:
    parts = []
    for problem in error.errors():
        if problem["type"] == "too_short" and problem["input"]:
            continue  # entries that are wrong do not count; what is wrong with each is said
        said = problem["msg"].removeprefix("Value error, ")
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            reason = _unknown_key(problem["loc"])
        elif problem["type"] == "missing":
            reason = "is missing"
        elif isinstance(problem["input"], dict):  # what is wrong with a table is no one value of it
            reason = said
        else:
            reason = f"{problem['input']!r}: {said}"
        parts.append(f"{key}: {reason}")
    return f"{file}: " + "; ".join(parts)


def _unknown_key(location: tuple[int | str, ...]) -> str:
    """Say which keys the table has in which an unknown one stands."""
    keys = sorted(set(Profile.model_fields) - {"name"})
    *table, key = (part for part in location if isinstance(part, str))
    if not table:
        return f"unknown key; the keys are: {', '.join(keys)}"
    known = ", ".join(sorted(_TABLES[table[0]].model_fields))
    reason = f"unknown key; the keys of [[{table[0]}]] are: {known}"
    return f"{reason}; {key} of the class belongs above the first [[...]]" if key in keys else reason
