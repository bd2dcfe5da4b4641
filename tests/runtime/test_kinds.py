"""Each kind of device can be taken away from edge-rt: nothing else needs it, or knows its name."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolchain.runtime.fingerprint import NATIVE

LISTS = NATIVE / "CMakeLists.txt"
KINDS = re.findall(r"\w+", LISTS.read_text().partition("set(DEVICES")[2].partition(")")[0])
FAILED, REQUIRES = 1, 5


def code(file: Path) -> str:
    """Return what a compiler or CMake reads of a file: no comments; in small letters."""
    text = file.read_text().replace(
        "CUDA_CACHE_PATH", ""
    )  # NVIDIA's own: its driver for OpenCL reads it, too
    comment = r"#[^\n]*" if file == LISTS else r"//[^\n]*|/\*.*?\*/"
    return re.sub(comment, "", text, flags=re.DOTALL).lower()


@pytest.mark.parametrize("kind", KINDS)
def test_device_kinds_are_named_in_their_folder_only(kind: str) -> None:
    """What no other file names, no other file can include or call."""
    kind_folder = NATIVE / "src" / kind
    sources = [path for path in NATIVE.rglob("*") if path.suffix in {".cc", ".h", ".map", ".cmake"}]
    outside = [path for path in sources if not path.is_relative_to(kind_folder)]
    assert kind_folder.is_dir() and NATIVE / "src" / "main.cc" in outside
    assert [path.name for path in outside if kind in code(path)] == []
    assert code(LISTS).count(kind) == 1, "its line"


class Without:
    """The sanitized edge-rt, linked without the objects of some kinds."""

    def __init__(self, folder: Path, away: tuple[str, ...]) -> None:
        from tests.fuzz import sanitized

        sanitized.build()
        self.folder, self.program = folder, folder / "edge-rt"
        self.environment = {"PATH": os.environ["PATH"], **sanitized.OPTIONS}
        sanitized.without(away, self.program)

    def __call__(self, *arguments: str) -> tuple[int, Any]:
        state = ["--state", str(self.folder / "state")] if arguments else []
        done = subprocess.run(
            [self.program, *arguments, *state],
            env=self.environment,
            capture_output=True,
            timeout=120,
        )
        assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout)

    def run(self, library: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
        """Run a library on the CPU; return its outputs."""
        file = self.folder / "outputs.npz"
        code, answer = self("run", *self._words(library, inputs), "--output", str(file))
        assert code == 0, answer
        with np.load(file) as outputs:
            return list(outputs.values())

    def bench(self, library: bytes, *inputs: np.ndarray, device: str = "") -> tuple[int, Any]:
        words = [*self._words(library, inputs), *(["--device", device] if device else [])]
        return self("bench", *words, "--repeat", "1", "--warmup", "0")

    def _words(self, library: bytes, inputs: Sequence[np.ndarray]) -> list[str]:
        (self.folder / "net.so").write_bytes(library)
        words = [str(self.folder / "net.so")]
        for number, value in enumerate(inputs):
            np.save(self.folder / f"{number}.npy", value)
            words += ["--input", str(self.folder / f"{number}.npy")]
        return words


@pytest.mark.full
@pytest.mark.parametrize("away", [(), *((kind,) for kind in KINDS), tuple(KINDS)], ids="-".join)
def test_edge_rt_builds_without_a_device_kind(tmp_path: Path, away: tuple[str, ...]) -> None:
    """It links, lists the kinds that are left, and computes on them."""
    from tests.runtime import networks, opencl_network, vta_network
    from tests.vta.regions import case

    edge, program = Without(tmp_path, away), case()
    left = ["cpu", *(kind for kind in KINDS if kind not in away)]
    _, facts = edge("info", "--devices")
    tests_own = {"lazy", "npu"}
    assert [entry["kind"] for entry in facts["devices"] if entry["kind"] not in tests_own] == left
    verbs = [
        "info",
        "run",
        "bench",
        "measure",
        "probe",
        "serve",
        "install",
        "trust",
        "status",
        "rollback",
        "prune",
    ]
    verbs += ["recover", *(["vta"] if "vta" in left else [])]
    assert edge()[1]["error"]["message"] == f"give a command: {', '.join(verbs)}"

    dense = np.zeros((4, 8), np.float32), np.zeros(16, np.float32)
    x = program.x.reshape(vta_network.VALUE)
    libraries = {
        "cpu": (networks.library("dense", "x86_64"), dense, "cpu"),
        "opencl": (opencl_network.network(), dense, "opencl"),
        "vta": (vta_network.library((program.blob,)), (x,), "vta:sim"),
    }
    random = np.random.default_rng(0)
    values = [random.standard_normal(value.shape, np.float32) for value in dense]
    for output, expected in zip(edge.run(libraries["cpu"][0], *values), networks.dense(*values), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
    for kind, (library, inputs, device) in libraries.items():
        code, answer = edge.bench(library, *inputs, device=device)
        if kind in left:
            assert code == 0 and (answer["modelled"] is not None) == (kind == "vta"), answer
            continue
        assert (code, answer["error"]["kind"]) == (REQUIRES, "device")
        assert "this edge-rt knows no such kind; here are: cpu" in answer["error"]["message"]
        code, answer = edge.bench(library, *inputs)
        assert code == FAILED, answer
        lacks = "the library needs what edge-rt lacks: opencl" if kind == "opencl" else "edge.vta.run"
        assert lacks in answer["error"]["message"]
