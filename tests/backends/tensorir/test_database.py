"""Records to MetaSchedule's files and back; TVM's own JSONDatabase reads ours, and we read its."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from tests.records.matmul import matmul
from tests.records.samples import PROVENANCE
from toolchain.backends.tensorir.backend import TensorIR  # noqa: F401  # skips the intrinsics of all devices
from toolchain.backends.tensorir.traces import (
    RECORDS,
    WORKLOADS,
    read_database,
    schedule_from,
    trace_entry,
    write_database,
)
from toolchain.boards.inventory.lookup import find_target
from toolchain.errors import UsageError
from toolchain.lowering.functions.definition import definition_of, function_of, module_of
from toolchain.lowering.functions.tasks import workload_hash
from toolchain.records.exchange import Function
from toolchain.records.record import Record, RecordKey
from toolchain.records.store import RecordStore
from toolchain.targets.target import target_for

FUNC = matmul(32)
CLASS = find_target("x86_64")
TARGET = target_for(CLASS.profile)
KEY = RecordKey(workload_hash(FUNC), TARGET.triple, TARGET.cpu, TARGET.level, TARGET.threads, "x86_64")


def trace(factor: int) -> Schedule:
    schedule = Schedule(module_of(function_of(definition_of(FUNC))))  # a schedule changes what it shares
    loop, *_ = schedule.get_loops(schedule.get_sblock("C"))
    outer, _inner = schedule.split(loop, [None, factor])
    schedule.parallel(outer)
    return schedule


def arguments() -> list[ms.arg_info.ArgInfo]:
    return list(ms.arg_info.ArgInfo.from_entry_func(module_of(FUNC), remove_preproc=True))


def fill(store: RecordStore) -> None:
    """Add three traces, one of which failed, one of a device, and a default."""
    function = store.add_function(KEY.workload, "matmul", definition_of(FUNC))
    for factor, times in ((4, (1.1, 1.3)), (8, (0.7,)), (16, ())):
        entry = trace_entry(trace(factor).trace, arguments())
        record = Record(KEY, function, entry.kind, entry.payload, entry.digest, PROVENANCE, times)
        store.add(replace(record, failure=None if times else "timeout"))
    store.add(replace(record, key=replace(KEY, device="opencl:mali-t860"), run_ms=(0.1,)))
    store.add(Record(KEY, function, "default", "", "default", PROVENANCE, (2.0,)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "own.sqlite") as store:
        fill(store)
        yield store


def exported(store: RecordStore, folder: Path) -> tuple[int, int]:
    return write_database(folder, {each.id: each for each in store.functions()}, store.all())


def test_tvm_reads_what_we_write(store: RecordStore, tmp_path: Path) -> None:
    folder = tmp_path / "database"
    assert exported(store, folder) == (1, 2)
    database = ms.database.JSONDatabase(work_dir=str(folder))
    assert len(database) == 2
    best = database.query_tuning_record(module_of(FUNC), TARGET.target, "main")
    assert [float(second) for second in best.run_secs] == pytest.approx([0.0007])
    assert trace_entry(best.trace, best.args_info).digest == trace_entry(trace(8).trace, []).digest
    assert best.target.attrs["mcpu"] == TARGET.cpu and best.target.attrs["num-cores"] == TARGET.threads
    scheduled = database.query_schedule(module_of(FUNC), TARGET.target, "main")
    ours = schedule_from(store.best(KEY, ("metaschedule",)).payload, definition_of(FUNC), FUNC)
    assert workload_hash(scheduled.mod["main"]) == workload_hash(ours)


def test_we_read_what_tvm_writes(tmp_path: Path) -> None:
    database = ms.database.JSONDatabase(str(tmp_path / WORKLOADS), str(tmp_path / RECORDS))
    workload = database.commit_workload(module_of(FUNC))
    for factor, seconds in ((4, [0.0011, 0.0013]), (8, [1e10])):
        made = ms.database.TuningRecord(trace(factor).trace, workload, seconds, TARGET.target, arguments())
        database.commit_tuning_record(made)
    functions, (record,) = read_database(tmp_path, CLASS)
    assert record.key == KEY and record.run_ms == (1.1, 1.3)
    assert (record.provenance.board, record.provenance.run) == ("x86_64", "metaschedule")
    assert record.digest == trace_entry(trace(4).trace, []).digest
    with RecordStore(tmp_path / "other.sqlite") as store:
        assert [store.add_new(functions, [record]) for _ in range(2)] == [1, 0]
        definition = store.definition(record.function)
    applied = schedule_from(record.payload, definition, FUNC)
    assert workload_hash(applied) == workload_hash(trace(4).mod["main"])


def test_there_and_back_a_record_is_the_same_but_for_where_it_came_from(
    store: RecordStore, tmp_path: Path
) -> None:
    exported(store, tmp_path / "database")
    functions, records = read_database(tmp_path / "database", CLASS)
    assert functions == [Function(records[0].function, KEY.workload, "main", definition_of(FUNC))]
    traces = [record for record in store.all() if record.kind == "metaschedule" and record.best_ms]
    before = [record for record in traces if not record.key.device]
    known = {"provenance": PROVENANCE, "created": ""}
    assert [replace(record, **known) for record in records] == [replace(record, **known) for record in before]


def test_a_folder_that_is_there_is_left_alone(store: RecordStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        exported(store, tmp_path)
    with pytest.raises(UsageError, match="none of these records is a trace"):
        write_database(tmp_path / "new", {each.id: each for each in store.functions()}, store.all()[2:])
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        (RECORDS, lambda text: text[:-100], f"{RECORDS}, line 2 is damaged"),
        (RECORDS, lambda text: text.replace("[0,", "[7,", 1), f"{RECORDS}, line 1 is damaged"),
        (RECORDS, lambda text: "[0,[1,2,3,4]]\n" + text, f"{RECORDS}, line 1 is damaged"),
        (RECORDS, lambda _text: "{" * 10_000, f"{RECORDS}, line 1 is damaged"),
        (RECORDS, lambda text: text.replace('"GetSBlock"', '"GetNothing"'), f"{RECORDS}, line 1 is damaged"),
        (
            RECORDS,
            lambda text: text.replace("x86-64-v3", "cortex-a72"),
            "line 1: it was measured for cortex-a72",
        ),
        (WORKLOADS, lambda text: text[:-100], f"{WORKLOADS}, line 1 is damaged"),
        (WORKLOADS, lambda _text: '["1","abc"]\n', f"{WORKLOADS}, line 1 is damaged"),
        (WORKLOADS, lambda _text: '["1","AAAA"]\n', f"{WORKLOADS}, line 1 is damaged"),
    ],
)
def test_damaged_files(
    store: RecordStore, tmp_path: Path, file: str, change: Callable[[str], str], says: str
) -> None:
    folder = tmp_path / "database"
    exported(store, folder)
    (folder / file).write_text(change((folder / file).read_text()))
    with pytest.raises(UsageError) as caught:
        read_database(folder, CLASS)
    assert says in caught.value.message and caught.value.message.isprintable() and caught.value.hint


def test_a_file_that_is_missing(store: RecordStore, tmp_path: Path) -> None:
    folder = tmp_path / "database"
    exported(store, folder)
    (folder / WORKLOADS).unlink()
    with pytest.raises(UsageError, match=f"{WORKLOADS} cannot be read: No such file"):
        read_database(folder, CLASS)
