from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tvm
from tvm.s_tir import Schedule

from tests.records.matmul import matmul
from toolchain.backends.tensorir.traces import schedule_from, trace_entry, traced, with_attributes
from toolchain.errors import ToolchainError
from toolchain.lowering.functions.definition import definition_of

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_candidate_of_one_process_is_applied_in_the_next(tmp_path: Path) -> None:
    scheduled = set()
    for step in ("tune", "read"):
        program = [sys.executable, "-m", "tests.records.candidate", str(tmp_path / "r.sqlite"), step]
        ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stderr
        scheduled.add(ended.stdout)
    assert len(scheduled) == 1


def _split(block: str = "C", factor: int = 4) -> str:
    schedule = Schedule(tvm.IRModule({"main": matmul(16)}))
    loop, *_ = schedule.get_loops(schedule.get_sblock("C"))
    schedule.split(loop, [None, factor])
    trace = schedule.trace.as_json()
    text = json.dumps({"trace": trace, "arguments": []}, default=lambda constant: constant.value)
    return text.replace('"C"', f'"{block}"')


@pytest.mark.slow
def test_a_trace_applies_to_a_twin_whose_blocks_have_other_names() -> None:
    measured = matmul(16)
    twin = tvm.script.from_source(measured.script().replace('sblock("C")', 'sblock("D")'))
    twin = twin.with_attr("global_symbol", "fused_twin").with_attr("op_pattern", 4)
    before = twin.script()
    scheduled = with_attributes(schedule_from(_split(), definition_of(measured), twin), twin)
    assert twin.script() == before
    assert scheduled.attrs["global_symbol"] == "fused_twin"
    assert scheduled.attrs["op_pattern"] == 4
    assert "i_0, i_1" in scheduled.script()


def test_tracing_leaves_the_function_alone() -> None:
    func = matmul(16)
    before = func.script()
    assert traced(_split(), func).mod["main"].script() != before
    assert func.script() == before


@pytest.mark.parametrize("payload", ["", "{}", '{"trace": 3}', "nowhere", "tiny"])
def test_a_damaged_payload_is_one_sentence(payload: str) -> None:
    payload = {"nowhere": _split(block="nowhere"), "tiny": _split().replace(", 4]", ", 0]")}.get(
        payload, payload
    )
    func = matmul(16)
    with pytest.raises(ToolchainError, match="no longer applies") as caught:
        schedule_from(payload, definition_of(func), func)
    assert "\n" not in caught.value.message
    assert "--fresh" in caught.value.hint


@pytest.mark.parametrize("key", ["pragma_import_llvm", "pragma_import_c"])
def test_a_trace_that_brings_code_along_is_refused(key: str) -> None:
    schedule = Schedule(tvm.IRModule({"main": matmul(16)}))
    loop, *_ = schedule.get_loops(schedule.get_sblock("C"))
    schedule.annotate(loop, key, "define void @f() { ret void }")
    payload = trace_entry(schedule.trace, []).payload
    func = matmul(16)
    with pytest.raises(ToolchainError, match="contains code"):
        schedule_from(payload, definition_of(func), func)


def test_a_record_of_another_function_is_refused() -> None:
    with pytest.raises(ToolchainError, match="another function"):
        schedule_from(_split(), definition_of(matmul(16)), matmul(8))


def test_a_digest_is_of_the_decisions() -> None:
    digests = []
    for factor, idle in ((4, False), (4, True), (8, False)):
        schedule = Schedule(tvm.IRModule({"main": matmul(16)}))
        loop, *_ = schedule.get_loops(schedule.get_sblock("C"))
        if idle:
            schedule.get_child_blocks(schedule.get_sblock("root"))  # decides nothing
        schedule.split(loop, [None, factor])
        digests.append(trace_entry(schedule.trace, []).digest)
    assert digests[0] == digests[1] != digests[2]
