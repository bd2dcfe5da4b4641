"""The plan of an exported folder, which edge-rt reads; native/src/offline/plan.h has the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from toolchain.answers import shown
from toolchain.errors import UsageError
from toolchain.files.plain import open_plain
from toolchain.targets.target import BoardTarget
from toolchain.tuning.options import TuneOptions

FILE = "plan"
VERSION = 3
_FIRST = "edge-toolchain-plan "
_MOST = 16 << 20  # bytes, as in edge-rt
_DIGEST = "digest "
_AGAIN = "export it again"


def head(runtime: str, target: BoardTarget, options: TuneOptions) -> list[str]:
    """Return the lines before the members: for which edge-rt, and how candidates are run and timed."""
    requires = ",".join(sorted(target.requires)) or "-"
    return [
        f"{_FIRST}{VERSION}",
        f"runtime {runtime}",
        f"compute {target.computes_on} {target.threads} {target.cpu} {requires}",
        f"samples {options.number} {options.repeat} {options.min_repeat_ms}",
    ]


def text(first: Sequence[str], members: Mapping[str, int], blocks: Sequence[Sequence[str]]) -> str:
    """Return the whole plan."""
    lines = [*first, *(f"member {digest} {size}" for digest, size in sorted(members.items()))]
    lines += [line for block in blocks for line in block]
    content = "".join(f"{line}\n" for line in (*lines, f"end {len(blocks)}"))
    return f"{content}{_DIGEST}{sha256(content.encode()).hexdigest()}\n"


@dataclass(frozen=True)
class StationPlan:
    """A plan that was read.

    Attributes
    ----------
    digest
        Digest of the plan, which its results name.
    blocks
        The lines of each candidate by its digest, in their order and without the probe.
    members
        Sizes of the files by their digests.
    samples
        Number of times that each candidate is timed.
    """

    digest: str
    blocks: Mapping[str, tuple[str, ...]]
    members: Mapping[str, int]
    samples: int

    def limit_s(self, candidate: str) -> float:
        """Return the deadline of a candidate's process, by the candidate's digest."""
        return float(self.blocks[candidate][0].split(" ")[3])


def read_plan(folder: Path) -> StationPlan:
    """Return the plan of a folder.

    Raises
    ------
    UsageError
        The folder has no plan, one of another version, or one that was changed.
    """
    path = folder / FILE
    try:
        with open_plain(path, links=False) as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        raise UsageError(
            f"{folder} is no exported folder: {path} cannot be read: {error.strerror}",
            "`toolchain tune --export DIR` writes one",
        ) from error
    if len(content) > _MOST:
        raise UsageError(f"{path} is too large for a plan: more than {_MOST} bytes", _AGAIN)
    lines = content.decode("ascii", errors="replace").splitlines()
    first = lines[0] if lines else ""
    if first != f"{_FIRST}{VERSION}":
        if first.startswith(_FIRST):
            said = shown(first.removeprefix(_FIRST))
            raise UsageError(
                f"{path} has version {said}, this toolchain reads version {VERSION}",
                "use the toolchain that exported it, or export it again",
            )
        raise UsageError(f"{path} is not a plan of candidates", "`toolchain tune --export DIR` writes one")
    begin = content.rfind(f"\n{_DIGEST}".encode()) + 1
    digest = sha256(content[:begin]).hexdigest()
    if content[begin:] != f"{_DIGEST}{digest}\n".encode():
        raise UsageError(f"{path} was changed or cut: it has another digest than it says", _AGAIN)
    try:
        return StationPlan(digest, _blocks(lines), _members(lines), _samples(lines))
    except (ValueError, IndexError, StopIteration) as error:  # its digest is right: another program wrote it
        raise UsageError(f"{path} is malformed: {error}", _AGAIN) from error


def _blocks(lines: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    own: list[str] = []
    for line in lines:
        word, *rest = line.split(" ")
        if word in ("candidate", "probe"):
            digest = rest[0]
            own = [line.replace(digest, "{digest}", 1)]
            if word == "candidate":
                found[digest] = own
        elif word in ("case", "stored", "drawn", "output"):
            own.append(line)
    return {digest: tuple(block) for digest, block in found.items()}


def _members(lines: Sequence[str]) -> dict[str, int]:
    words = [line.split(" ") for line in lines if line.startswith("member ")]
    return {digest: int(size) for _member, digest, size in words}


def _samples(lines: Sequence[str]) -> int:
    return int(next(line for line in lines if line.startswith("samples ")).split(" ")[2])
