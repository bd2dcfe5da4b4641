"""MetaSchedule's decisions as text, and back onto a function."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.schedule import Trace
from tvm.tirx import PrimFunc

from toolchain.backends.tensorir.kinds import METASCHEDULE
from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.lowering.functions.definition import MAIN, copied, function_of
from toolchain.lowering.functions.workload import same_workload, workload_hash
from toolchain.tasks.candidate import Entry

_BRINGS_CODE = "pragma_import"
"""Begins the annotations with which TVM links C or LLVM's code into a function: records are data."""


def trace_entry(trace: Trace, arguments: Sequence[ArgInfo]) -> Entry:
    """Return a trace, postprocessing included, as a record keeps it.

    Its digest is the same for traces with the same decisions, postprocessing and dead code apart.
    """
    decided = trace.simplified(remove_postproc=True).as_json()
    payload = {
        "trace": trace.as_json(remove_postproc=False),
        "arguments": [argument.as_json() for argument in arguments],
    }
    digest = hashlib.sha256(_text(decided).encode()).hexdigest()
    return Entry(METASCHEDULE, _text(payload), digest)


def traced(payload: str, func: PrimFunc) -> Schedule:
    """Apply a payload to the function it was measured for.

    Returns
    -------
    Schedule
        Of a module with the one function `main`; its trace is the payload's.

    Raises
    ------
    ToolchainError
        The trace is damaged or no longer applies.
    """
    # A schedule of a copy that nothing else holds changes the body it shares with the original:
    # hand it a body of its own.
    workload = workload_hash(func)
    trace = parse_trace(payload, workload)
    schedule = Schedule(tvm.IRModule({MAIN: copied(func)}))
    try:
        if any(instruction[0] == "Tensorize" for instruction in trace[0]):
            import_module("tvm.s_tir.tensor_intrin")  # takes seconds: only where it is needed
        Trace.apply_json_to_schedule(trace, schedule)
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        raise _stale(workload, first_line(error)) from error
    return schedule


def parse_trace(payload: str, workload: str) -> list[Any]:
    """Return the instructions and the decisions of a payload, whether or not they apply to anything.

    Raises
    ------
    ToolchainError
        It is damaged, or no trace.
    """
    try:
        instructions, decisions = json.loads(payload)["trace"]
    except (ValueError, TypeError, KeyError) as error:
        raise _stale(workload, f"it is no trace: {first_line(error)}") from error
    if not isinstance(instructions, list) or not isinstance(decisions, list):
        raise _stale(workload, "it is no trace")
    if any(_BRINGS_CODE in json.dumps(instruction) for instruction in instructions):
        raise _stale(workload, "it brings code of its own, which no search of ours writes")
    return [instructions, decisions]


def schedule_from(payload: str, function: str, func: PrimFunc) -> PrimFunc:
    """Return a function scheduled by a record; it has the attributes of the one that was measured.

    Traces name blocks, which workload hashes ignore: the trace is applied to the function it was
    measured for. `with_attributes` makes the result one of the network.

    Parameters
    ----------
    payload
        Of a `trace_entry`.
    function
        The function that was measured: `Hit.function`.
    func
        What is to be computed, of the same hash.

    Raises
    ------
    ToolchainError
        The record is of another function, or no longer applies.
    """
    measured = function_of(function)
    if not same_workload(measured, func):
        raise ToolchainError(
            f"the record of task {workload_hash(func)} belongs to another function with the same hash",
            "tune the task again with --fresh",
        )
    result: tvm.tirx.PrimFunc = traced(payload, measured).mod[MAIN]
    return result


def with_attributes(result: PrimFunc, func: PrimFunc) -> PrimFunc:
    """Return a scheduled function with the attributes that `func` has in its network, its name among them."""
    for name, value in (func.attrs or {}).items():
        result = result.with_attr(name, value)
    return result if func.attrs and "global_symbol" in func.attrs else result.without_attr("global_symbol")


def _stale(workload: str, why: str) -> ToolchainError:
    return ToolchainError(
        f"a record of task {workload} no longer applies: {why}", "tune the task again with --fresh"
    )


def _text(value: Any) -> str:
    # TVM leaves its own integers, booleans and floats in the tree
    return json.dumps(value, separators=(",", ":"), default=lambda constant: constant.value)
