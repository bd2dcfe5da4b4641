"""One network for every contender: exported, built by our command line, converted for the peers."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.latency.process import ContenderError

ROOT = Path(__file__).parents[2]
TOOLCHAIN = ROOT / ".venv/bin/toolchain"
PEERS_PYTHON = ROOT / ".venv-bench/bin/python"
_COMMAND_S = 900.0
MIB = 2.0**20


@dataclass
class Network:
    """Where a network's files are.

    Attributes
    ----------
    models
        The file that each contender loads.
    sizes_mib
        Size of what each contender needs on disk: our bundle, a peer's model files.
    reasons
        Why a contender has no file.
    build_s
        Seconds that `toolchain build` took, a process begun cold; None when it failed.
    """

    name: str
    batch: int
    folder: Path
    onnx: Path
    bundle: Path | None = None
    build_s: float | None = None
    models: dict[str, Path] = field(default_factory=dict)
    sizes_mib: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def command(argv: list[str | Path], **env: str) -> str:
    """Return what a command printed.

    Raises
    ------
    ContenderError
        It failed; the words are its last line.
    """
    try:
        done = subprocess.run(
            [str(word) for word in argv],
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            env=os.environ | env,
        )
    except subprocess.TimeoutExpired as error:
        raise ContenderError(f"{Path(argv[0]).name} took longer than {_COMMAND_S:.0f} s") from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()
        raise ContenderError(said[-1][-300:] if said else f"ended with {done.returncode}")
    return done.stdout


def toolchain(folder: Path, *words: str | Path) -> dict[str, Any]:
    """Return the document of one of our commands; nothing that the user tuned is used."""
    data = {"TOOLCHAIN_DATA_DIR": str(folder / "data"), "TOOLCHAIN_ENGINE": "host"}
    document: dict[str, Any] = json.loads(command([TOOLCHAIN, *words, "--json"], **data))
    return document


def prepare(name: str, batch: int, contenders: list[str], folder: Path) -> Network:
    """Make every contender's files for a network of the zoo, and its seeded input (`input.npy`)."""
    folder.mkdir(parents=True)
    onnx = folder / "model.onnx"
    options: list[str | Path] = [f"zoo:{name}", "--batch", str(batch)]
    toolchain(folder, "model", "export", *options, "-o", onnx)
    network = Network(name, batch, folder, onnx)
    shape = input_shape(onnx)
    np.save(folder / "input.npy", np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    for contender in contenders:
        try:
            _prepare_one(network, contender, options, shape)
        except ContenderError as error:
            network.reasons[contender] = str(error)
    return network


def _prepare_one(network: Network, contender: str, options: list[str | Path], shape: tuple[int, ...]) -> None:
    if contender == "ours":
        build(network, options)
        return
    files = [network.onnx]
    if contender in ("ncnn", "mnn"):
        converter = Path(__file__).with_name("convert.py")
        extents = "x".join(map(str, shape))
        source = network.onnx
        if contender == "ncnn" and network.batch != 1:  # it has no batch: it takes the images one by one
            source = network.folder / "one.onnx"
            toolchain(network.folder, "model", "export", f"zoo:{network.name}", "--batch", "1", "-o", source)
        command([PEERS_PYTHON, converter, contender, source, network.folder, extents])
        ends = {"ncnn": ("param", "bin"), "mnn": ("mnn",)}[contender]
        files = [network.folder / f"model.{end}" for end in ends]
    network.models[contender] = files[0]
    network.sizes_mib[contender] = sum(file.stat().st_size for file in files) / MIB


def build(network: Network, options: list[str | Path], board: str = "local") -> None:
    """Build a network for a board class with our command line, cold, by its source and options."""
    output = network.folder / "built"
    begun = time.perf_counter()
    built = toolchain(network.folder, "build", *options, "--board", board, "-o", output)
    network.build_s = time.perf_counter() - begun
    network.bundle = Path(built["bundle"])
    network.models["ours"] = Path(built["library"])
    network.sizes_mib["ours"] = network.bundle.stat().st_size / MIB


def input_shape(model: Path) -> tuple[int, ...]:
    """Return the shape of a file's only input."""
    import onnx

    (given,) = onnx.load(str(model), load_external_data=False).graph.input
    return tuple(extent.dim_value for extent in given.type.tensor_type.shape.dim)
