"""A board whose `edge-rt` is a script that answers what a test wants."""

from __future__ import annotations

import json
import platform
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolchain.boards.edge_rt.install import program_path
from toolchain.bundles.manifest import Manifest, ModelFacts, TargetFacts, Tensor
from toolchain.bundles.write import write_bundle
from toolchain.host import host_profile
from toolchain.runtime import Runtime

FEATURE = "a-feature"
OUTPUTS = {
    "y": np.array([[0.5, -1.0, 2.0, 0.25]], "float32"),
    "found": np.array([True, False]),
    "n": np.array(7, "int64"),
}

# Copies what lies in `lie` for the verb; what is sourced first may do anything else.
_PROGRAM = """#!/bin/sh
verb=$1
for word; do
    [ "$before" = --output ] && out=$word
    before=$word
done
[ -z "$out" ] || [ ! -e lie/out.npz ] || cat lie/out.npz >"$out"
[ ! -e "lie/$verb.sh" ] || . "./lie/$verb.sh"
cat "lie/$verb"
read -r code <"lie/$verb.code"
exit "$code"
"""


@dataclass(frozen=True)
class Liar:
    """A folder of a board, with such an `edge-rt` in it: of the right name and size, so that it stays."""

    root: Path
    runtime: Runtime

    def install(self) -> None:
        """Put the script there; from then on it tells the truth."""
        program = self.root / program_path(self.runtime)
        program.parent.mkdir(parents=True, exist_ok=True)
        with program.open("wb") as file:
            file.write(_PROGRAM.encode())
            file.truncate(self.runtime.program.stat().st_size)
        program.chmod(0o755)
        self.be_honest()

    def be_honest(self) -> None:
        """Answer as a board does on which all is well."""
        folder = self.root / "lie"
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        self.say("info", info(self.runtime))
        self.say("run", RUN)
        self.say("bench", BENCH)
        (folder / "out.npz").write_bytes(outputs_file(OUTPUTS))

    def say(self, verb: str, answer: object, code: int = 0, script: str = "") -> None:
        """Answer a verb with bytes or, of anything else, its JSON, after a piece of shell has run."""
        text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        (self.root / "lie" / verb).write_bytes(text)
        (self.root / "lie" / f"{verb}.code").write_text(f"{code}\n")
        (self.root / "lie" / f"{verb}.sh").write_text(script)


DETAILS = {
    "name": "card",
    "type": "gpu",
    "vendor": "maker",
    "version": "OpenCL 1.2",
    "driver": "libOpenCL.so.1",
    "driver_version": "1.r14p0",
    "platform": "its platform",
    "compute_units": 4,
    "clock_mhz": 800,
    "max_work_group": 256,
    "max_work_items": [256, 256, 256],
    "local_bytes": 32768,
    "global_bytes": 2**31,
    "max_alloc_bytes": 2**29,
    "cache_bytes": 2**18,
    "cache_line_bytes": 64,
    "float_lanes": 4,
    "half_lanes": 8,
    "half": True,
}


def info(runtime: Runtime) -> dict[str, Any]:
    """Return what an honest `edge-rt info` says."""
    return {
        "version": "1.0.0",
        "fingerprint": runtime.fingerprint,
        "machine": platform.machine(),
        "glibc": "9.9",
        "cpu_features": [FEATURE],
        "devices": [
            {"kind": "cpu", "names": ["generic"], "problem": None},
            {"kind": "other", "names": [], "problem": "no driver"},
            {"kind": "opencl", "names": ["card"], "problem": None, "details": [DETAILS]},
        ],
        "logical_cpus": 4,
        "governor": "performance",
        "temperature_c": 41.5,
        "unknown": {"to": ["us"]},
    }


RUN = {
    "outputs": [
        {"name": str(place), "shape": list(array.shape), "dtype": array.dtype.name}
        for place, array in enumerate(OUTPUTS.values())
    ],
    "threads": 1,
    "ms": 1.5,
}
BENCH = {
    "times_ms": [1.5, 1.25, 1.75],
    "number": 1,
    "runs": 3,
    "threads": 1,
    "spin_us": 50,
    "peak_rss_mib": 12.5,
    "governor": None,
    "temperature_c": None,
    "copies_ms": {"to_device": 0.25, "from_device": 0.125},
    "operators": [{"name": "dense", "calls": 1.0, "ms": 0.5}],
}


def tiny_bundle(path: Path) -> Path:
    """Write a bundle for this host whose library nobody will load."""
    host = host_profile()
    outputs = tuple(
        Tensor(name=name, shape=array.shape, dtype=array.dtype.name) for name, array in OUTPUTS.items()
    )
    manifest = Manifest(
        tool_version="0.1.0",
        model=ModelFacts(name="tiny", source_name="tiny.onnx", sha256="ab" * 32, flops=10**9),
        target=TargetFacts(triple=host.triple, mcpu="generic", definition={}),
        device="cpu",
        requires=(FEATURE,),
        arch=host.arch,
        board_class=host.name,
        emulated=False,
        board="local",
        cluster=host.clusters[0].cpu,
        threads=1,
        glibc=host.glibc,
        inputs=(Tensor(name="x", shape=(1, 3), dtype="float32"),),
        outputs=outputs,
        tolerance=1e-3,
        tvm="0",
        tvm_ffi="0",
        layout="NCHW",
        dtype="float32",
    )
    write_bundle(path, manifest, b"\x7fELF", {"x": np.ones((1, 3), "float32")}, OUTPUTS)
    return path


def npy(array: np.ndarray, shape: str | None = None) -> bytes:
    """Return a member as edge-rt writes it."""
    extents = "".join(f"{extent}," for extent in array.shape) if shape is None else shape
    text = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': ({extents}), }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + array.tobytes()


def npz(members: Sequence[tuple[str, bytes]]) -> bytes:
    """Return a zip file as edge-rt writes it."""
    body, directory = b"", b""
    for name, data in members:
        sizes = (zlib.crc32(data), len(data), len(data), len(name), 0)
        fields = struct.pack("<HHHHHIIIHH", 20, 0x800, 0, 0, 0x21, *sizes)
        entry = b"PK\1\2\x14\0" + fields + bytes(10) + struct.pack("<I", len(body)) + name.encode()
        directory += entry
        body += b"PK\3\4" + fields + name.encode() + data
    count = len(members)
    return (
        body + directory + b"PK\5\6" + struct.pack("<IHHIIH", 0, count, count, len(directory), len(body), 0)
    )


def outputs_file(outputs: dict[str, np.ndarray]) -> bytes:
    """Return the file of outputs that have the bundle's form."""
    return npz([(f"{place}.npy", npy(array)) for place, array in enumerate(outputs.values())])
