"""Builds the pack: a folder that `python3 run.py` measures on a machine with a GPU and nothing of ours."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.nvidia.barriers import barrier_kernels
from benchmarks.nvidia.building import Target, built, functions_of
from benchmarks.nvidia.contenders import OURS, TOLERANCES, Ours, peers
from benchmarks.nvidia.graph import graph_of, input_of, model_of
from benchmarks.nvidia.members import LIMIT, Members
from toolchain.errors import UsageError
from toolchain.files.atomic import replacing_folder
from toolchain.models.zoo import ZooNetwork
from toolchain.runtime import ensure_runtime
from toolchain.runtime.fingerprint import expected_fingerprint

ROOT = Path(__file__).parents[2]
TRAVEL = "benchmarks/nvidia/travel"
VERSION = 1

_RUN = '''"""Measure what is in this folder: python3 run.py --help."""

from benchmarks.nvidia.travel.main import main

if __name__ == "__main__":
    main()
'''


@dataclass(frozen=True)
class Wanted:
    """The contents of a pack.

    Attributes
    ----------
    ours
        Ways to build each network.
    peers
        Peers by `contenders.peers`.
    travel
        Folder with the modules that run there.
    """

    networks: Sequence[ZooNetwork]
    batches: Sequence[int] = (1, 8)
    target: Target = field(default_factory=Target)
    ours: Sequence[Ours] = OURS
    peers: Sequence[dict[str, str]] = ()
    travel: Path = ROOT / TRAVEL
    limit: int = LIMIT


def write_pack(folder: Path, wanted: Wanted, note: Callable[[str], None]) -> dict[str, Any]:
    """Build what is wanted and write it to a folder, which is complete or not there; return its manifest.

    Raises
    ------
    UsageError
        The folder has contents, or the pack becomes too large.
    ToolchainError
        A network cannot be built.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} has contents", "name a folder that is new or empty")
    if folder.exists():
        folder.rmdir()
    with (
        tempfile.TemporaryDirectory(prefix="bench-cuda-") as scratch,
        replacing_folder(folder) as made,
    ):
        members = Members(made, wanted.limit)
        members.add("edge-rt", ensure_runtime("x86_64", progress=note).program.read_bytes())
        (made / "edge-rt").chmod(0o755)
        networks = [
            entry
            for network in wanted.networks
            for batch in wanted.batches
            for entry in [_network(network, batch, wanted, members, Path(scratch), note)]
        ]
        launches = {
            arch: members.compress(f"launches/{arch}", code)
            for arch, code in barrier_kernels(wanted.target).items()
        }
        members.add("run.py", _RUN.encode())
        for package in ("benchmarks", "benchmarks/nvidia"):  # else others of that name come before them
            members.add(f"{package}/__init__.py", b"")
        for module in sorted(wanted.travel.glob("*.py")):
            members.add(f"{TRAVEL}/{module.name}", module.read_bytes())
        manifest = {
            "version": VERSION,
            "made": {"commit": _commit(), "fingerprint": expected_fingerprint(), "arch": wanted.target.arch},
            "networks": networks,
            "launches": launches,
            "peers": list(wanted.peers or peers()),
            "tolerances": TOLERANCES,
            "members": members.written,
        }
        (made / "pack.json").write_text(json.dumps(manifest, indent=1))
    return manifest


def _network(
    network: ZooNetwork,
    batch: int,
    wanted: Wanted,
    members: Members,
    scratch: Path,
    note: Callable[[str], None],
) -> dict[str, Any]:
    shape = (batch, *network.shape[1:])
    model = model_of(network, batch)
    graph = graph_of(model)
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        file, sample = folder / f"{network.name}.onnx", folder / "data.npy"
        onnx.save(model, str(file))
        np.save(sample, input_of(shape))
        entry: dict[str, Any] = {
            "network": network.name,
            "batch": batch,
            "input": members.compress(f"inputs/{'x'.join(map(str, shape))}.npy", sample.read_bytes()),
            "graph": members.compress(
                f"{network.name}/{batch}/graph.json", json.dumps(graph.document).encode()
            ),
            "weights": members.compress(f"{network.name}/weights.bin", graph.weights),
            "ours": [],
        }
        for ours in (each for each in wanted.ours if each.offered):
            note(f"{network.name}, batch {batch}, {ours.name}: building")
            made = built(str(file), sample, ours, wanted.target, folder / "out")
            stem = f"{network.name}/{batch}/{ours.name.replace(', ', '-')}"
            row: dict[str, Any] = {
                "name": ours.name,
                "arithmetic": ours.arithmetic,
                "library": members.compress(f"{stem}.so", made.library),
                "functions": functions_of(str(file), ours, wanted.target, folder),
            }
            entry["ours"].append(row)
            entry["softmax"] = made.softmax
            expected = made.expected.astype("<f4").tobytes()
            entry["expected"] = {"shape": list(made.expected.shape)}
            entry["expected"] |= members.compress(f"{network.name}/{batch}/expected.f32", expected)
    return entry


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()
