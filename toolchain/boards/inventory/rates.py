"""The measured rates of boards: kept in `toolchain.toml`, those of this host in the cache folder."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from pydantic import ValidationError

from toolchain.architectures.rates import BoardRates
from toolchain.boards.board import Board
from toolchain.boards.inventory import register
from toolchain.configuration.keys import THIS_HOST
from toolchain.configuration.settings import cache_dir, configuration
from toolchain.files import atomic
from toolchain.profiles import Profile

_OF_A_CPU = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "flags",
    "Features",
    "CPU implementer",
    "CPU part",
)


def kept_rates(name: str) -> BoardRates | None:
    """Return the measured rates of the board `name`, without connecting; None if there are none.

    Rates of this host count only as long as it has the same CPU.
    """
    if is_this_host(name):
        return _of_this_host()
    entry = configuration().boards.get(name)
    return entry.rates if entry else None


def keep_rates(board: Board, rates: BoardRates) -> Path:
    """Keep the rates of a board in place of earlier ones; return the file that has them.

    Raises
    ------
    ToolchainError
        The file cannot be written.
    """
    if not is_this_host(board.name):
        return register.set_rates(board.name, rates)
    file = _file_of_this_host()
    try:
        atomic.make_private_folder(file.parent)
        atomic.write_bytes(file, rates.model_dump_json(indent=2).encode() + b"\n")
    except OSError as error:
        raise atomic.cannot_write(file, error) from error
    return file


def is_this_host(name: str) -> bool:
    """Return whether the board `name` is this machine: `local`, or one of its devices."""
    entry = configuration().boards.get(name)
    return name == THIS_HOST or (entry is not None and entry.host == THIS_HOST)


def with_rates(profile: Profile, rates: BoardRates) -> Profile:
    """Return a board class with the rates of one of its boards, in those clusters that were measured."""
    clusters = tuple(
        cluster.model_copy(update={"rates": rates.of_core(cluster.cpu) or cluster.rates})
        for cluster in profile.clusters
    )
    return profile.model_copy(update={"clusters": clusters})


def _of_this_host() -> BoardRates | None:
    """Return this host's rates; a file that cannot be read counts as none."""
    try:
        return BoardRates.model_validate_json(_file_of_this_host().read_bytes())
    except (OSError, ValidationError):
        return None


def _file_of_this_host() -> Path:
    return cache_dir() / "rates" / f"{_cpu_digest()}.json"


def _cpu_digest(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return a digest of this host's CPUs, the same whichever of them this process may use."""
    facts: dict[str, str] = {}
    count = 0
    for line in cpuinfo.read_text().splitlines():
        key, _, value = line.partition(":")
        count += key.strip() == "processor"
        if (key := key.strip()) in _OF_A_CPU:
            facts.setdefault(key, re.sub(r"\s+", " ", value.strip()))
    text = json.dumps([facts, count], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
