"""Converts MetaSchedule's traces to text, and applies them to functions."""

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
"""Prefix of the annotations with which TVM links C or LLVM code into a function; records must not have it."""


def trace_entry(trace: Trace, arguments: Sequence[ArgInfo]) -> Entry:
    """Return a trace, postprocessing included, as a record's entry.

    Traces that differ only in postprocessing and dead code have the same digest.
    """
    decided = trace.simplified(remove_postproc=True).as_json()
    payload = {
        "trace": trace.as_json(remove_postproc=False),
        "arguments": [argument.as_json() for argument in arguments],
    }
    digest = hashlib.sha256(_text(decided).encode()).hexdigest()
    return Entry(METASCHEDULE, _text(payload), digest)


def traced(payload: str, func: PrimFunc) -> Schedule:
    """Apply a payload to the function for which it was measured.

    Returns
    -------
    Schedule
        Schedule of a module with the one function `main`; its trace is the payload's.

    Raises
    ------
    ToolchainError
        The trace is damaged or no longer applies.
    """
    # If the schedule held the only reference to a copy, it would change the body that the copy shares with
    # the original; therefore it gets a body of its own.
    workload = workload_hash(func)
    trace = parse_trace(payload, workload)
    schedule = Schedule(tvm.IRModule({MAIN: copied(func)}))
    try:
        if any(instruction[0] == "Tensorize" for instruction in trace[0]):
            import_module("tvm.s_tir.tensor_intrin")  # slow (seconds), and rarely needed
        Trace.apply_json_to_schedule(trace, schedule)
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        raise _stale(workload, first_line(error)) from error
    return schedule


def parse_trace(payload: str, workload: str) -> list[Any]:
    """Return the instructions and decisions of a payload, without applying them.

    Raises
    ------
    ToolchainError
        The payload is damaged, or has no trace.
    """
    try:
        instructions, decisions = json.loads(payload)["trace"]
    except (ValueError, TypeError, KeyError) as error:
        raise _stale(workload, f"it is no trace: {first_line(error)}") from error
    if not isinstance(instructions, list) or not isinstance(decisions, list):
        raise _stale(workload, "it is no trace")
    if any(_BRINGS_CODE in json.dumps(instruction) for instruction in instructions):
        raise _stale(workload, "it contains code, which our searches never write")
    return [instructions, decisions]


def schedule_from(payload: str, function: str, func: PrimFunc) -> PrimFunc:
    """Return a function scheduled by a record; its attributes are those of the measured function.

    Traces name blocks, and workload hashes ignore the names: therefore the trace is applied to the function
    for which it was measured. `with_attributes` then gives the result the attributes of the network's
    function.

    Parameters
    ----------
    payload
        Payload of a `trace_entry`.
    function
        Definition of the measured function: `Hit.definition`.
    func
        Function to compute, with the same hash.

    Raises
    ------
    ToolchainError
        The record belongs to another function, or no longer applies.
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
    """Return a scheduled function with the attributes of `func`, its name included."""
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
