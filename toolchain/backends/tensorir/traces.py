"""MetaSchedule's decisions as text, and back onto a function."""

from __future__ import annotations

import hashlib
import json
from importlib import import_module
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.s_tir.schedule import Trace
from tvm.tirx import PrimFunc

from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.lowering.workload import same_workload, workload_hash

_MAIN = "main"  # the name traces use for their function


def function_json(func: PrimFunc) -> str:
    """Return the function as text, for `RecordStore.add_function`."""
    return str(tvm.ir.save_json(func.with_attr("global_symbol", _MAIN)))


def function_from(text: str) -> PrimFunc:
    """Return the function that `function_json` wrote."""
    return tvm.ir.load_json(text)


def trace_payload(record: TuningRecord) -> str:
    """Return a record's trace, postprocessing included, and its arguments as JSON."""
    arguments = [argument.as_json() for argument in record.args_info or ()]
    return _text({"trace": record.trace.as_json(remove_postproc=False), "arguments": arguments})


def trace_digest(trace: Trace) -> str:
    """Return the same text for traces with the same decisions, postprocessing and dead code apart."""
    return hashlib.sha256(_text(trace.simplified(remove_postproc=True).as_json()).encode()).hexdigest()


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
    schedule = Schedule(tvm.IRModule({_MAIN: function_from(function_json(func))}))
    try:
        trace = json.loads(payload)["trace"]
        if any(instruction[0] == "Tensorize" for instruction in trace[0]):
            import_module("tvm.s_tir.tensor_intrin")  # takes seconds: only where it is needed
        Trace.apply_json_to_schedule(trace, schedule)
    except Exception as error:  # TVM raises anything from TypeError to its own kinds
        raise ToolchainError(
            f"a record of task {workload_hash(func)} no longer applies: {first_line(error)}",
            "tune the task again with --fresh",
        ) from error
    return schedule


def schedule_from(payload: str, function: str, func: PrimFunc) -> PrimFunc:
    """Return `func` scheduled by a record.

    Traces name blocks, which workload hashes ignore: the trace is applied to the function it was
    measured for, and the result takes the attributes of `func`.

    Parameters
    ----------
    payload
        What `trace_payload` gave.
    function
        The function that was measured: `Hit.definition`.

    Raises
    ------
    ToolchainError
        The record is of another function, or no longer applies.
    """
    measured = function_from(function)
    if not same_workload(measured, func):
        raise ToolchainError(
            f"the record of task {workload_hash(func)} belongs to another function with the same hash",
            "tune the task again with --fresh",
        )
    result = traced(payload, measured).mod[_MAIN]
    for name, value in (func.attrs or {}).items():
        result = result.with_attr(name, value)
    return result if func.attrs and "global_symbol" in func.attrs else result.without_attr("global_symbol")


def _text(value: Any) -> str:
    # TVM leaves its own integers, booleans and floats in the tree
    return json.dumps(value, separators=(",", ":"), default=lambda constant: constant.value)
