"""What decides for a task of a real network: levels of instructions, devices, what is shipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.building.measured import PROVENANCE
from toolchain.backends.packed.backend import Packed
from toolchain.backends.packed.kinds import CPU
from toolchain.building.decide import Decision, decide_task
from toolchain.models.load import Model
from toolchain.profiles import Profile, load_profile
from toolchain.records.exchange import write_records
from toolchain.records.record import Record
from toolchain.records.store import RecordStore
from toolchain.tasks.backend import Network
from toolchain.tasks.candidate import record_key
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow  # a network is lowered


def with_cpu(cpu: str) -> Profile:
    profile = load_profile("x86_64")
    clusters = [profile.clusters[0].model_copy(update={"cpu": cpu})]
    return profile.model_copy(update={"clusters": type(profile.clusters)(clusters)})


@pytest.fixture(scope="module")
def networks(model: Model) -> Iterator[dict[str, Network[Any]]]:
    """Return the network as it is lowered for CPUs of three levels; only the second is the class's own."""
    cpus = ("x86-64-v2", "x86-64-v3", "skylake-avx512")
    backends = [Packed(with_cpu(cpu), CodeOptions()) for cpu in cpus]
    lowered = [backend.lower(model, backend.target()) for backend in backends]
    yield dict(zip(cpus, lowered, strict=True))
    for network in lowered:
        network.close()


def decided(
    networks: dict[str, Network[Any]], store: RecordStore, cpu: str, **options: object
) -> list[Decision[Any]]:
    network = networks[cpu]
    return [decide_task(network, task, store, network.target, "x86_64", **options) for task in network.tasks]


def record_second(networks: dict[str, Network[Any]], store: RecordStore, cpu: str, ms: float) -> int:
    """Record for every task that has one its second choice on a CPU; return for how many."""
    network, count = networks[cpu], 0
    for task in network.tasks:
        space = network.space(task)
        if space.size < 2:
            continue
        entry = space.entry(space.point(1))
        function = store.add_function(task.workload, task.name, task.definition)
        key = record_key(task.workload, network.target, "x86_64")
        board = replace(PROVENANCE, board=f"pc with {cpu}")
        store.add(Record(key, function, entry.kind, entry.payload, entry.digest, board, (ms,)))
        count += 1
    return count


def test_what_was_found_with_avx512_is_never_compiled_for_a_cpu_without(
    networks: dict[str, Network[Any]], store: RecordStore
) -> None:
    count = record_second(networks, store, "skylake-avx512", 0.001)
    assert count > 2
    for cpu in ("x86-64-v2", "x86-64-v3"):
        assert not any(decision.tuned for decision in decided(networks, store, cpu))
    exact = decided(networks, store, "skylake-avx512")
    assert sum(decision.tuned for decision in exact) == count
    assert {decision.source for decision in exact if decision.tuned} == {"exact"}


def test_a_record_that_no_such_board_can_have_measured_is_skipped_and_named(
    networks: dict[str, Network[Any]], store: RecordStore
) -> None:
    record_second(networks, store, "x86-64-v3", 0.001)
    network = networks["x86-64-v3"]
    heaviest = next(task for task in network.tasks if network.space(task).size > 1)
    for flops, warns in ((10**6, False), (10**12, True)):
        task = replace(heaviest, flops=flops)
        found = decide_task(network, task, store, network.target, "x86_64", shipped=None)
        assert found.tuned is not warns
        assert ("skipped a record of board pc with x86-64-v3, run run-1" in found.warning) is warns
    record_second(networks, store, "x86-64-v3", 5000.0)
    found = decide_task(network, task, store, network.target, "x86_64", shipped=None)
    assert found.hit is not None and found.hit.record.best_ms == 5000.0 and found.warning


def test_what_was_found_without_avx512_serves_a_cpu_with_it_and_that_is_told(
    networks: dict[str, Network[Any]], store: RecordStore
) -> None:
    count = record_second(networks, store, "x86-64-v3", 5.0)
    found = decided(networks, store, "skylake-avx512")
    told = [decision.to_json() for decision in found]
    hits = [row for row in told if row["source"]]
    # A choice for narrower vectors may be none for wider ones: then it is said, and the default taken.
    assert len(hits) + sum(bool(decision.warning) for decision in found) == count and hits
    assert {(row["source"], row["how"], row["board"], row["level"], row["ms"]) for row in hits} == {
        ("own", "lower-level", "pc with x86-64-v3", "x86-64-v3", 5.0)
    }
    misses = [row for row in told if not row["source"]]
    assert {row["how"] for row in misses} == {row["ms"] for row in misses} == {None}
    record_second(networks, store, "skylake-avx512", 9.0)  # slower, and of the same device
    assert {row.source for row in decided(networks, store, "skylake-avx512") if row.tuned} == {"exact"}


def test_shipped_record_applies_without_user_record(
    networks: dict[str, Network[Any]], store: RecordStore, tmp_path: Path
) -> None:
    path = tmp_path / "shipped.jsonl"
    with RecordStore(tmp_path / "maker.sqlite") as maker:
        count = record_second(networks, maker, "x86-64-v3", 5.0)
        write_records(path, maker.functions(), maker.all())
    shipped = [decision for decision in decided(networks, store, "x86-64-v3", shipped=path) if decision.tuned]
    assert len(shipped) == count
    assert {decision.source for decision in shipped} == {"shipped, exact"}
    assert {decision.to_json()["source"] for decision in shipped} == {"shipped"}
    assert all(decision.improved for decision in shipped)
    assert not any(decision.tuned for decision in decided(networks, store, "x86-64-v3", shipped=None))
    assert not any(decision.tuned for decision in decided(networks, store, "x86-64-v2", shipped=path))
    assert CPU in {decision.hit.record.kind for decision in shipped}
