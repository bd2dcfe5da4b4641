"""Converts MetaSchedule's traces to text, and applies them to functions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.schedule import Trace
from tvm.tirx import PrimFunc

from toolchain import __version__
from toolchain.architectures.table import architecture_of
from toolchain.backends.tensorir.kinds import METASCHEDULE
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.plain import read_plain
from toolchain.foreign import first_line
from toolchain.lowering.functions.definition import MAIN, copied, definition_of, function_of, module_of
from toolchain.lowering.functions.tasks import same_workload, workload_hash
from toolchain.records.database import possible_ms
from toolchain.records.exchange import Function, function_id
from toolchain.records.record import Provenance, Record, RecordKey
from toolchain.targets.build_for import BuildFor
from toolchain.targets.target import BoardTarget, target_for
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


# Converts records from and to MetaSchedule's JSON database, a folder with two files (`JSONDatabase`).

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
_RUN = "metaschedule"
_UNKNOWN = "unknown"


def write_database(
    folder: Path, functions: Mapping[str, Function], records: Iterable[Record]
) -> tuple[int, int]:
    """Write the traces among the records to a new folder; return the number of functions and of records.

    Skipped are failures, defaults, records of other kinds and of devices (MetaSchedule's database has no name
    for them), traces that no longer apply, and traces of a function that TVM treats as equal to another one
    with other block names.

    Parameters
    ----------
    functions
        Functions by id.

    Raises
    ------
    UsageError
        The folder exists already; or there is nothing to write.
    ToolchainError
        The folder cannot be written.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already and was not changed", "name a new folder")
    written: list[str] = []
    with atomic.replacing_folder(folder) as made:
        database = ms.database.JSONDatabase(str(made / WORKLOADS), str(made / RECORDS))
        for record in records:
            if record.kind == METASCHEDULE and record.best_ms is not None and not record.key.device:
                tuned = _tuned(database, functions[record.function].definition, record)
                if tuned is not None:
                    database.commit_tuning_record(tuned)
                    written.append(record.function)
        if not written:
            raise UsageError(
                "none of these records is a trace of MetaSchedule that applies; nothing was exported",
                "leave --format out",
            )
    return len(set(written)), len(written)


def _tuned(
    database: ms.database.JSONDatabase, definition: str, record: Record
) -> ms.database.TuningRecord | None:
    """Return a record in MetaSchedule's form; None where it does not apply to what the database has."""
    func = function_of(definition)
    workload = database.commit_workload(module_of(func))
    if definition_of(workload.mod[MAIN]) != definition_of(func):
        return None
    try:
        trace = traced(record.payload, func).trace
    except ToolchainError:
        return None
    arguments = [ms.arg_info.ArgInfo.from_json(each) for each in json.loads(record.payload)["arguments"]]
    seconds = [milliseconds / 1e3 for milliseconds in record.run_ms]
    return ms.database.TuningRecord(trace, workload, seconds, _target(record.key), arguments)


def read_database(folder: Path, target: BuildFor) -> tuple[list[Function], list[Record]]:
    """Read the records that MetaSchedule measured on a board or a board class; failures are skipped.

    Raises
    ------
    UsageError
        A file cannot be read, a line is damaged, or its target is not the board's.
    """
    workloads = [_workload(file, number, line) for file, number, line in _lines(folder / WORKLOADS)]
    functions: dict[str, Function] = {}
    records = []
    for file, number, line in _lines(folder / RECORDS):
        try:
            index, fields = json.loads(line)
            tuned = ms.database.TuningRecord.from_json(fields, workloads[index])
            seconds = [float(each) for each in tuned.run_secs or ()]
            entry = trace_entry(tuned.trace, tuned.args_info or ())
        except Exception as error:  # TVM raises anything from TypeError to its own kinds
            raise _damaged(file, number, error) from error
        times = tuple(float(f"{each * 1e3:.12g}") for each in seconds)
        if not times or not all(map(possible_ms, times)):
            continue  # MetaSchedule stores 1e10 s for a failure
        func = tuned.workload.mod[MAIN]
        definition = definition_of(func)
        function = Function(function_id(definition), workload_hash(func), MAIN, definition)
        functions[function.id] = function
        key = _key(file, number, function.workload, tuned.target, target)
        provenance = Provenance(
            run=_RUN,
            board=target.board or target.profile.name,
            runtime=_UNKNOWN,
            tvm=version("apache-tvm"),
            tvm_ffi=version("apache-tvm-ffi"),
            tool=__version__,
        )
        records.append(Record(key, function.id, entry.kind, entry.payload, entry.digest, provenance, times))
    return list(functions.values()), records


def _lines(file: Path) -> Iterator[tuple[Path, int, bytes]]:
    try:
        lines = read_plain(file).splitlines()
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read: {error.strerror}", f"name the folder of {WORKLOADS} and {RECORDS}"
        ) from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield file, number, line


def _workload(file: Path, number: int, line: bytes) -> Any:
    try:
        found = ms.database.Workload.from_json(json.loads(line))
        if not isinstance(found.mod[MAIN], tvm.tirx.PrimFunc):
            raise TypeError("it has no function main")
    except Exception as error:
        raise _damaged(file, number, error) from error
    return found


def _damaged(file: Path, number: int, error: Exception) -> UsageError:
    return UsageError(
        f"{file}, line {number} is damaged: {first_line(error)}; nothing was taken from the file",
        "use both files, as TVM's JSONDatabase wrote them",
    )


def _target(key: RecordKey) -> tvm.target.Target:
    row = architecture_of(key.triple)
    options = {"kind": "llvm", "mtriple": key.triple, "mcpu": key.cpu, "num-cores": key.threads}
    return tvm.target.Target({**options, **(row.target_options if row else {})})


def _key(file: Path, number: int, workload: str, measured: Any, target: BuildFor) -> RecordKey:
    """Return the key of a record."""
    said = dict(measured.attrs) if measured is not None else {}
    triple, cpu = (str(said.get(name, "")) for name in ("mtriple", "mcpu"))
    profile = target.profile
    clusters = [cluster.cpu for cluster in profile.clusters]
    if triple != profile.triple or cpu not in clusters:
        raise UsageError(
            f"{file}, line {number}: it was measured for {cpu or 'no cpu'} of {triple or 'no triple'}; "
            f"{target.board or profile.name} has {', '.join(clusters)} of {profile.triple}",
            "name the board or the class of boards that measured: --board B",
        )
    made: BoardTarget = target_for(profile, cpu, int(said["num-cores"]) if "num-cores" in said else None)
    return RecordKey(workload, triple, cpu, made.level, made.threads, target.record_class)
