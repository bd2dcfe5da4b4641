"""Builds the library of a network by our command line, and says what its functions compute and move."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.latency.layers import label
from benchmarks.nvidia.contenders import Ours
from toolchain.bundles import read_bundle
from toolchain.errors import ToolchainError

_SECONDS = 1800.0


@dataclass(frozen=True)
class Target:
    """A board class, and the architectures of its GPU (empty: the class's)."""

    board: str = "cuda"
    arch: str = ""

    @property
    def options(self) -> list[str]:
        """Options of `build` and `tasks`."""
        return ["--board", self.board, "--device", "cuda", *(["--arch", self.arch] if self.arch else [])]


@dataclass(frozen=True)
class Built:
    """A library with what its bundle says.

    Attributes
    ----------
    size
        Bytes of the bundle, the network's weights and the sample, as `build --json` has them.
    """

    library: bytes
    expected: np.ndarray
    softmax: bool
    size: dict[str, int]


def built(model: str, sample: Path | None, ours: Ours, target: Target, folder: Path) -> Built:
    """Build a model without the user's records; return its library.

    Raises
    ------
    ToolchainError
        `toolchain build` failed, or the network has several outputs.
    """
    words = ["build", model, *target.options, *ours.options, "-o", str(folder)]
    said = toolchain([*words, *(["--sample", f"data={sample}"] if sample else [])], folder)
    bundle = read_bundle(Path(said["bundle"]))
    if len(bundle.expected) != 1:
        raise ToolchainError(f"{model} has {len(bundle.expected)} outputs, and a peer has one")
    ((name, expected),) = bundle.expected.items()
    softmax = name in bundle.manifest.model.softmax_outputs
    return Built(bundle.library, expected, softmax, said["size"])


def functions_of(model: str, ours: Ours, target: Target, folder: Path) -> dict[str, dict[str, Any]]:
    """Return label, FLOPs and least bytes of each task's function: each operand is moved once."""
    itemsize = 2 if ours.arithmetic == "float16" else 4
    return {
        task["name"]: {
            "label": label(task["name"], task["shapes"]),
            "flops": task["flops"],
            "bytes": itemsize * sum(prod(shape) for shape in task["shapes"]),
        }
        for task in toolchain(["tasks", model, *target.options, *ours.options], folder)
    }


def toolchain(words: list[str], folder: Path) -> Any:
    """Return the document of one of our commands, run on this host.

    Raises
    ------
    ToolchainError
        It failed, or took longer than half an hour.
    """
    data = {"TOOLCHAIN_DATA_DIR": str(folder / "data"), "TOOLCHAIN_ENGINE": "host"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "toolchain", *words, "--json"],
            env=os.environ | data,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"toolchain {words[0]} {words[1]} took longer than {_SECONDS:.0f} s") from error
    if done.returncode:
        raise ToolchainError(f"toolchain {' '.join(words)}: {(done.stderr or done.stdout).strip()[-500:]}")
    return json.loads(done.stdout)
