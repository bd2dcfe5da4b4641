"""onnxruntime as it runs on a CPU with AVX2 alone, on a CPU that has more.

onnxruntime chooses its kernels by `cpuid`, which a process cannot forbid. So a copy of its library gets a
breakpoint in place of each such instruction, and a preloaded library answers them without AVX-512, VNNI and
AMX (hidden.c). Everything else runs as it is, at full speed. `saturates` proves that the kernels are those of
AVX2: their products of bytes are cut off at 16 bits (docs/decisions/0055).
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.latency.networks import command
from benchmarks.latency.process import ContenderError

_SOURCE = Path(__file__).with_name("hidden.c")
_CPUID, _BREAKPOINT = b"\x0f\xa2", b"\xcc\x90"
_FOUND = re.compile(r"^\s*([0-9a-f]+):\s+cpuid", re.MULTILINE)
_SEGMENT = re.compile(r"^\s*LOAD\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+)", re.MULTILINE)
_LEAST = 3  # highest leaf, features, features of leaf 7


def hide(folder: Path, python: Path) -> dict[str, str]:
    """Write the copy and the answering library; return the environment of processes that use them.

    Raises
    ------
    ContenderError
        There is no onnxruntime, no objdump, or the copy still sees what it should not.
    """
    home = "import onnxruntime, pathlib; print(pathlib.Path(onnxruntime.__file__).parent)"
    package = Path(command([python, "-c", home]).strip())
    copy = folder / "hidden"
    shutil.copytree(package, copy / "onnxruntime", ignore=shutil.ignore_patterns("libonnxruntime.so*"))
    (library,) = (copy / "onnxruntime" / "capi").glob("onnxruntime_pybind11_state*.so")
    _break(library)
    answers = copy / "hidden.so"
    command([sys.executable, "-m", "ziglang", "cc", "-O2", "-shared", "-fPIC", _SOURCE, "-o", answers])
    env = {"PYTHONPATH": str(copy), "LD_PRELOAD": str(answers)}
    if not saturates(folder, python, env):
        raise ContenderError("onnxruntime still multiplies bytes exactly: its AVX2 kernels are not in use")
    return env


def _break(library: Path) -> None:
    """Replace the cpuid instructions of a library."""
    segments = [
        tuple(int(number, 16) for number in found)
        for found in _SEGMENT.findall(command(["readelf", "-lW", library]))
    ]
    code = command(["objdump", "-d", "--no-show-raw-insn", library])
    places = [int(found, 16) for found in _FOUND.findall(code)]
    if len(places) < _LEAST:
        raise ContenderError(f"{library.name}: {len(places)} cpuid instructions, fewer than expected")
    data = bytearray(library.read_bytes())
    for place in places:
        offset, start, _size = next(
            (offset, start, size) for offset, start, size in segments if start <= place < start + size
        )
        at = place - start + offset
        if data[at : at + 2] != _CPUID:
            raise ContenderError(f"{library.name}: no cpuid at {place:#x}")
        data[at : at + 2] = _BREAKPOINT
    library.chmod(0o644)
    library.write_bytes(data)


def saturates(folder: Path, python: Path, env: dict[str, str]) -> bool:
    """Whether onnxruntime, in an environment, cuts off sums of products of bytes at 16 bits."""
    model, output = folder / "saturating.onnx", folder / "saturating.npy"
    depth = 64
    weight = np.full((depth, 16), 127, np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node],
        "saturating",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (16, depth))],
        [helper.make_tensor_value_info("y", TensorProto.INT32, (16, 16))],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(model))
    run = (
        "import numpy, onnxruntime, sys; x = numpy.full((16, 64), 255, numpy.uint8);"
        "session = onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider']);"
        "numpy.save(sys.argv[2], session.run(None, {'x': x})[0])"
    )
    command([python, "-c", run, model, output], **env)
    return not np.array_equal(np.load(output), np.full((16, 16), depth * 255 * 127, np.int32))
