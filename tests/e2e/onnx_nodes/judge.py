"""Judges cases: what this host's edge-rt computes, against what onnx says it should.

A batch of cases goes the way of every network, as one: imported, lowered, its code generated, compiled,
linked, checked and run. Where the batch fails its halves are tried, down to the case whose fault it is. Each
try is a process of its own: what crashes one says no more than that.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.e2e.onnx_nodes.cases import Case
from toolchain.arrays import Array
from toolchain.devices.cuda_architectures import EMULATED
from toolchain.devices.device import CPU

PASSED, REFUSED, WRONG, CRASHED, BUG, OUTSIDE = "passed", "refused", "wrong", "crashed", "bug", "outside"
BROKEN = (WRONG, CRASHED, BUG)
"""Verdicts that no case may have."""

ARCHITECTURES = {"cuda": f"{EMULATED},sm_90"}
"""Architecture of the code for a device, where it is not that of the class."""
BATCH = 48
LIMIT_S = 300


@dataclass(frozen=True)
class Verdict:
    """What became of a case.

    Attributes
    ----------
    reason
        Why it is not passed.
    rules
        What its functions were computed by.
    """

    case: str
    verdict: str
    reason: str = ""
    rules: tuple[str, ...] = field(default=())


def judged(cases: Sequence[Case], batch: int = BATCH, device: str = CPU) -> Iterator[Verdict]:
    """Yield a verdict for every case, computed by a device of this host."""
    yield from (Verdict(case.name, OUTSIDE, case.outside) for case in cases if case.outside)
    inside = [case for case in cases if not case.outside]
    for begin in range(0, len(inside), batch):
        yield from _tried(inside[begin : begin + batch], device)


def _tried(cases: Sequence[Case], device: str) -> list[Verdict]:
    """Judge a batch in a child; its halves, where it does not come to an end."""
    if not cases:
        return []
    found, failure = _in_a_child(cases, device)
    left = [case for case in cases if case.name not in found]
    if left and len(cases) == 1:
        return [failure or Verdict(cases[0].name, CRASHED, "the process ended")]
    half = max(1, len(left) // 2)
    rest = [*_tried(left[:half], device), *_tried(left[half:], device)] if left else []
    return [*found.values(), *rest]


def _in_a_child(cases: Sequence[Case], device: str) -> tuple[dict[str, Verdict], Verdict | None]:
    """Return the verdicts by name; where one case is all and has none, what became of it."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(cases, device, there))
    child.start()
    there.close()
    found: dict[str, Verdict] = {}
    failure = None
    try:
        while here.poll(LIMIT_S):
            verdict: Verdict = here.recv()
            if verdict.case:
                found[verdict.case] = verdict
            else:
                failure = Verdict(cases[0].name, verdict.verdict, verdict.reason)
    except EOFError:
        pass
    child.join(1)
    if child.is_alive():
        child.kill()
        child.join()
        failure = Verdict(cases[0].name, CRASHED, f"not done in {LIMIT_S} s")
    elif child.exitcode and failure is None:
        failure = Verdict(cases[0].name, CRASHED, f"exit code {child.exitcode}")
    return found, failure


def _work(cases: Sequence[Case], device: str, pipe: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="onnx-nodes-") as folder:
        loaded = []
        for case in cases:
            try:
                loaded.append((case, _load(case, Path(folder))))
            except Exception as error:
                pipe.send(_failed(case.name, error))
        try:
            for verdict in _computed(loaded, device, Path(folder), pipe) if loaded else ():
                pipe.send(verdict)
        except Exception as error:
            pipe.send(_failed("", error))
    pipe.close()


def _failed(name: str, error: Exception) -> Verdict:
    from toolchain.errors import UsageError

    if isinstance(error, UsageError):
        return Verdict(name, REFUSED, str(error))
    if isinstance(error, subprocess.CalledProcessError):
        return Verdict(name, CRASHED, f"edge-rt: {error.returncode}: {error.stderr.decode()[-300:]}")
    return Verdict(name, BUG, _told(error))


def _told(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error).strip()[:300]} ({Path(frame.filename).name}:{frame.lineno})"


def _load(case: Case, folder: Path) -> Any:
    """Return the model, if `build` would go on with it: it wants a sample and a reference, too."""
    from toolchain.building.build import reference_for
    from toolchain.building.options import BuildOptions
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions

    path = folder / "network.onnx"
    onnx.save(case.model, path)
    model = load_model(str(path), ModelOptions())
    reference_for(model, BuildOptions())
    return model


def _computed(loaded: Sequence[tuple[Case, Any]], device: str, folder: Path, pipe: Any) -> Iterator[Verdict]:
    """Compile and run all as one, and compare; where that fails, all but those that fail alone."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    try:
        library, decisions = compiled_library(loaded, device, folder)
    except Exception:
        if len(loaded) == 1:
            raise
        sound = []
        for each in loaded:
            try:
                with tempfile.TemporaryDirectory(dir=folder) as alone:
                    compiled_library([each], device, Path(alone))
                sound.append(each)
            except Exception as error:
                pipe.send(_failed(each[0].name, error))
        if len(sound) == len(loaded):
            raise
        yield from _computed(sound, device, folder, pipe) if sound else ()
        return
    rules = tuple(sorted({decision.rule for decision in decisions})) if len(loaded) == 1 else ()
    inputs = [array for case, _ in loaded for array in case.inputs]
    outputs = run_library(library, inputs, device, folder)
    for case, model in loaded:
        own = [outputs.pop(0) for _ in model.outputs]
        reason = difference(case, own)
        yield Verdict(case.name, WRONG if reason else PASSED, reason, rules)


def compiled_library(loaded: Sequence[tuple[Case, Any]], device: str, folder: Path) -> tuple[Path, Any]:
    """Build one library of all, as `build` does; return it, and what decided how its functions are made."""
    from tests.e2e.onnx_nodes.merged import merged
    from toolchain.backends.table import backend_for
    from toolchain.boards.inventory.lookup import find_target
    from toolchain.building.build import decide_network
    from toolchain.building.options import BuildOptions
    from toolchain.linking.library import link_library
    from toolchain.tasks.options import CodeOptions

    target = find_target("x86_64")
    models = [model for _, model in loaded]
    whole = replace(models[0], module=merged(models))
    backend = backend_for(target.profile, CodeOptions(device=device, arch=ARCHITECTURES.get(device, "")))
    with backend.lower(whole, backend.target(), compiles=True) as network:
        decisions, _beside = decide_network(network, whole, target, None, BuildOptions())
        objects = network.compile({}, folder, lambda _step: None)
    library = folder / "library.so"
    link_library(objects.files, library, target.profile)
    return library, [each.made_by(objects.rules[each.task.name]) for each in decisions]


def run_library(library: Path, inputs: Sequence[Array], device: str, folder: Path) -> list[Array]:
    from toolchain.runtime import ensure_runtime
    from toolchain.testbeds.cuda import ensure_emulated_cuda

    arguments: list[str] = []
    for number, array in enumerate(inputs):
        path = folder / f"{number}.npy"
        np.save(path, np.asarray(array, order="C"))
        arguments += ["--input", str(path)]
    out = folder / "out.npz"
    command = [str(ensure_runtime("x86_64").program), "run", str(library), *arguments]
    command += ["--output", str(out), "--state", str(folder / "state"), "--threads", "1"]
    if device != CPU:
        command += ["--device", device]
    environment = os.environ | ({"EDGE_CUDA_DRIVER": str(ensure_emulated_cuda())} if device == "cuda" else {})
    subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S, env=environment)
    with np.load(out) as found:
        return [found[name] for name in found]


def difference(case: Case, outputs: Sequence[Array]) -> str:
    """Say what is wrong with the outputs; empty when nothing is."""
    for number, (wanted, got) in enumerate(zip(case.outputs, outputs, strict=True)):
        wanted = np.asarray(wanted)
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            return f"output {number}: {got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
        try:
            np.testing.assert_allclose(got, wanted, case.rtol, max(case.atol, _noise(wanted)), equal_nan=True)
        except AssertionError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            return f"output {number}: " + "; ".join(line.strip() for line in lines[1:6])
    return ""


def _noise(wanted: Array) -> float:
    """Return what rounding leaves of numbers that should be zero: of sums of as large ones as there are."""
    finite = np.abs(wanted[np.isfinite(wanted)]) if wanted.dtype.kind == "f" else np.zeros(0)
    return float(finite.max() * np.finfo(wanted.dtype).eps * 8) if finite.size else 0.0


def main(arguments: Sequence[str]) -> None:
    """Judge the cases whose names match one of the patterns (all, without one); write verdicts as JSON.

    The arguments are the file, the device (`cpu`, `opencl`, `cuda`) and the patterns.
    """
    from tests.e2e.onnx_nodes.cases import network_cases, node_cases

    out, device, *patterns = arguments
    cases = [
        case
        for case in (*node_cases(), *network_cases())
        if not patterns or any(re.search(pattern, case.name) for pattern in patterns)
    ]
    counts: dict[str, int] = {}
    with Path(out).open("w") as file:
        for verdict in judged(cases, device=device):
            counts[verdict.verdict] = counts.get(verdict.verdict, 0) + 1
            print(json.dumps(vars(verdict)), file=file, flush=True)
    print(counts)


if __name__ == "__main__":
    main(sys.argv[1:])
