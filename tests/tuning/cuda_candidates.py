"""Candidates for the emulated CUDA driver: one that is right, and some whose kernels are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tvm
from tvm import s_tir, te

from benchmarks.tuners.c_function import CFunction
from toolchain.lowering.kernels.code import code_of
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.profiles import Profile
from toolchain.targets.target import BoardTarget, device_target
from toolchain.tasks.candidate import Candidate, CandidateCode, Case, Entry, Parameter, write_case
from toolchain.tasks.task import Task

NUMBERS = Parameter((64,), "float32")
ACTS = Path(__file__).with_name("deadly.c")
OUTCOMES = {"sound": None, "outside": "runtime", "endless": "timeout", "crash": "runtime", "again": None}
"""What is to come of each candidate."""


class Doubling(Task):
    """The task that all of them are to compute."""

    @property
    def definition(self) -> str:
        """Nothing computes it."""
        return "doubled"


TASK = Doubling("c0ffee00" * 8, "doubled", 1, 64, ((64,), (64,)))


def emulated(profile: Profile) -> BoardTarget:
    """Return the target of the emulated driver."""
    return device_target(profile, "cuda", threads=1, arch="emulated")


def candidates(target: BoardTarget) -> dict[str, Candidate]:
    """Return the candidates of `OUTCOMES`."""
    x = te.placeholder((64,), name="x")
    steps = te.reduce_axis((0, tvm.tirx.IntImm("int64", 1 << 40)), name="steps")
    doubled = te.compute((64,), lambda i: x[i] + x[i], name="y")
    outside = te.compute((64,), lambda i: x[i + (1 << 24)] * 2.0, name="y")
    endless = te.compute((64,), lambda i: te.sum(x[i] * 1.000001 + 0.5, axis=steps), name="y")
    codes: dict[str, CandidateCode] = {
        name: code_of(Scheduled(_in_blocks(te.create_prim_func([x, y]))), target.target)
        for name, y in (("sound", doubled), ("outside", outside), ("endless", endless), ("again", doubled))
    }
    codes["crash"] = CFunction("return crash();", before=f'#include "{ACTS}"')
    return {
        name: Candidate(Entry("test", name, name.ljust(64, "0")), codes[name], (NUMBERS, NUMBERS), 1, "cuda")
        for name in OUTCOMES
    }


def _in_blocks(func: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    blocks, threads = schedule.split(schedule.get_loops("y")[0], [None, 32])
    schedule.bind(blocks, "blockIdx.x")
    schedule.bind(threads, "threadIdx.x")
    made: tvm.tirx.PrimFunc = schedule.mod["main"]
    return made


def case_of(folder: Path) -> Case:
    """Return the case of all of them."""
    case = write_case(folder, "case", {0: np.arange(64, dtype=np.float32)})
    case.expect([2 * np.arange(64, dtype=np.float32)])
    return case
