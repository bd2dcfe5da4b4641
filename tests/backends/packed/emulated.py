"""Functions in a program, under qemu if need be, on tensors between pages that must not be touched."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from toolchain.boards.emulation.qemu import emulator
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.lowering.graph.comparisons import with_bounds_kept
from toolchain.lowering.objects.export import export_objects
from toolchain.lowering.schedules.vectors import target_of_code
from toolchain.profiles import Profile
from toolchain.targets.target import target_for

_DRIVER = Path(__file__).with_name("guards.c")
_TRIPLES = {"x86_64": "x86_64-linux-musl", "aarch64": "aarch64-linux-musl", "armv7a": "arm-linux-musleabihf"}
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # DLPack's


@dataclass(frozen=True)
class Called:
    """A function, what it is called with, outputs last, and how many these are."""

    name: str
    function: tirx.PrimFunc
    arguments: Sequence[np.ndarray]
    outputs: int = 1


def run(calls: Sequence[Called], profile: Profile, folder: Path) -> list[list[np.ndarray]]:
    """Return what each call wrote, its tensors at the end and then at the start of their pages.

    Raises
    ------
    AssertionError
        A function touched what is no tensor of its own; the message has its name.
    """
    module = tvm.IRModule(
        {
            f"f{place}": each.function.with_attr("global_symbol", f"f{place}")
            for place, each in enumerate(calls)
        }
    )
    target = target_for(profile).target
    module = with_bounds_kept(module, target)
    objects = export_objects(tvm.compile(module, target=target_of_code(module, target)), folder)
    program = _linked(objects, len(calls), profile, folder)
    with (folder / "calls").open("wb") as file:
        for place, call in enumerate(calls):
            np.array([place, len(call.arguments), call.outputs], "u4").tofile(file)
            for each in call.arguments:
                code, bits = _CODES[each.dtype.kind], 8 * each.itemsize
                np.array([code, bits, each.ndim, each.nbytes], "u4").tofile(file)
                np.array(each.shape, "i8").tofile(file)
                np.ascontiguousarray(each).tofile(file)
    command = [*emulator(profile), str(program), str(folder / "calls"), str(folder / "results")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    if done.returncode:
        place = int(done.stderr.split("function ")[-1].split(",")[0]) if "function " in done.stderr else 0
        raise AssertionError(f"{calls[place].name} ended with {done.returncode}: {done.stderr}")
    return _results(calls, (folder / "results").read_bytes())


def _linked(objects: Sequence[Path], count: int, profile: Profile, folder: Path) -> Path:
    """Return the program, statically linked."""
    names = [f"__tvm_ffi_f{place}" for place in range(count)]
    table = folder / "table.c"
    declared = "".join(f"extern int {name}();\n" for name in names)
    table.write_text(f"{declared}int (*const functions[])() = {{{', '.join(names)}}};\n")
    include = Path(tvm_ffi.__file__).parent / "include"
    headers = Path(tvm.__file__).parent / "include"
    program = folder / "guards"
    sources = [str(_DRIVER), str(table), *map(str, objects)]
    flags = ["-std=gnu11", "-O1", f"-I{include}", f"-I{headers}", "-static"]
    ended = run_zig(
        ["cc", "-target", _TRIPLES[profile.arch], *flags, *sources, "-lm", "-o", str(program)],
        300,
        zig_cache_environment(),
    )
    assert ended.returncode == 0, ended.output
    return program


def _results(calls: Sequence[Called], data: bytes) -> list[list[np.ndarray]]:
    found: list[list[np.ndarray]] = []
    start = 0
    for call in calls:
        each = []
        for argument in [*call.arguments[-call.outputs :]] * 2:
            size = argument.nbytes
            each.append(np.frombuffer(data, argument.dtype, argument.size, start).reshape(argument.shape))
            start += size
        found.append(each)
    assert start == len(data)
    return found
