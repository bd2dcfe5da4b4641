"""The document that tells the host whose candidates a folder has; edge-rt does not read it."""

from __future__ import annotations

import json
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from toolchain import __version__, answers
from toolchain.errors import UsageError
from toolchain.files.plain import open_plain
from toolchain.runtime import expected_fingerprint
from toolchain.targets.target import BoardTarget

FILE = "candidates.json"
_MOST = 64 << 20
_AGAIN = "export it again"


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class ExportVersions(_Part):
    """The versions that export and import must agree on."""

    tool: str
    tvm: str
    tvm_ffi: str
    runtime: str


class ForTarget(_Part):
    """The target that the candidates were made for; `arch`: the architectures of its device."""

    triple: str
    cpu: str
    level: str
    threads: int
    dtype: str
    board_class: str
    device: str
    arch: str


class About(_Part):
    """A candidate: its task, its point, and how it came about.

    Attributes
    ----------
    digest
        Its digest in the plan; empty for one that did not compile.
    stage
        As `events.Trial.stage`.
    """

    digest: str = ""
    task: str
    kind: str
    payload: str
    point: str
    stage: Literal["default", "recorded", "search"]
    failure: Literal["build", "link", "timeout"] | None = None
    message: str = ""


class NotExported(_Part):
    """A candidate or a task that is not in the folder, and why."""

    task: str
    point: str = ""
    reason: str


class FolderContents(_Part):
    """The document `candidates.json`; `model` is the network as the user named it.

    Attributes
    ----------
    digest
        Digest of the rest of the document: the plan's do not cover in which stage a candidate was proposed,
        nor those that did not compile.
    """

    version: Literal[1] = 1
    digest: str = ""
    plan: str
    model: str
    versions: ExportVersions
    target: ForTarget
    candidates: tuple[About, ...]
    left_out: tuple[NotExported, ...] = ()


def text(document: FolderContents) -> str:
    """Return a document as it is written, with its digest."""
    content = {**document.model_dump(), "digest": _digest(document)}
    return f"{json.dumps(content, separators=(',', ':'), sort_keys=True)}\n"


def _digest(document: FolderContents) -> str:
    rest = json.dumps(document.model_dump(exclude={"digest"}), separators=(",", ":"), sort_keys=True)
    return sha256(rest.encode()).hexdigest()


def versions_here() -> ExportVersions:
    """Return the versions of this installation."""
    return ExportVersions(
        tool=__version__,
        tvm=version("apache-tvm"),
        tvm_ffi=version("apache-tvm-ffi"),
        runtime=expected_fingerprint(),
    )


def for_target(target: BoardTarget, record_class: str) -> ForTarget:
    """Return what candidates of a target are made for."""
    return ForTarget(
        triple=target.triple,
        cpu=target.cpu,
        level=target.level,
        threads=target.threads,
        dtype=target.dtype,
        board_class=record_class,
        device=target.device,
        arch=",".join(target.architectures),
    )


def read_about(folder: Path, plan: str) -> FolderContents:
    """Return the document of a folder, whose plan has the digest `plan`.

    Raises
    ------
    UsageError
        There is none, it was changed, it belongs to another plan, or it is malformed.
    """
    path = folder / FILE
    try:
        with open_plain(path, links=False) as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "copy the whole folder back") from error
    if len(content) > _MOST:
        raise UsageError(f"{path} is too large: more than {_MOST} bytes", _AGAIN)
    try:
        found = FolderContents.model_validate_json(content)
    except ValidationError as error:
        raise UsageError(f"{path} is malformed: {answers.problem(error)}", _AGAIN) from error
    if found.digest != _digest(found):
        raise UsageError(
            f"{path} was changed: it has another digest than it says", "copy the whole folder back"
        )
    if found.plan != plan:
        raise UsageError(
            f"{path} belongs to another plan than {folder / 'plan'}", "copy the whole folder back"
        )
    return found
