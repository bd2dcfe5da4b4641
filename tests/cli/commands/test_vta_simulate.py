"""`toolchain vta simulate`: a dump, run by the machine in software."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.vta.programs import OUTPUTS, good
from tests.vta.reference import Reference
from toolchain.vta.dumps.dump import write_dump
from toolchain.vta.machine.requests import EncodedProgram


def expected() -> bytes:
    dump = good().dump()
    return Reference(EncodedProgram(dump.config, dump.program, dump.before, dump.phys_base)).memory.tobytes()


@pytest.fixture
def dump(folder: Path) -> Path:
    write_dump(folder / "dump", replace(good().dump(), after=expected()))
    return folder / "dump"


def test_the_memory_is_compared_and_the_model_is_called_one(invoke: Toolchain, dump: Path) -> None:
    told = invoke("vta", "simulate", dump, "--strict")
    assert told.code == 0
    assert "model (no board): " in told.out and "100 MHz" in told.out
    assert "the memory equals expected.bin" in told.out
    said = invoke("vta", "simulate", dump, "--json").document
    assert said["passed"] is True and said["refused"] is None and said["difference"] is None
    assert said["strict"] is False and said["bitstream"] == "1x16_i8w8a32_15_15_18_17"
    assert said["model"]["ms"] == pytest.approx(said["model"]["cycles"] / 1e5)
    assert said["cycle_model"]["version"] == 1
    assert said["model"]["stages"]["load"]["instructions"] == 2


def test_fails_if_memory_differs(invoke: Toolchain, dump: Path) -> None:
    wrong = bytearray(expected())
    wrong[OUTPUTS + 5] ^= 1
    (dump / "expected.bin").write_bytes(wrong)
    told = invoke("vta", "simulate", dump)
    assert told.code == 4
    assert told.says("in 1 byte;", f"byte {OUTPUTS + 5}, in output 0", f"simulate {dump} --strict")
    assert "vta disasm" in invoke("vta", "simulate", dump, "--strict").err
    said = invoke("vta", "simulate", dump, "--json")
    assert said.code == 4 and said.document["passed"] is False
    assert said.document["difference"]["first"] == OUTPUTS + 5


def test_simulates_without_expected_memory(invoke: Toolchain, dump: Path) -> None:
    (dump / "expected.bin").unlink()
    told = invoke("vta", "simulate", dump)
    assert told.code == 0 and "no expected.bin" in told.out
    assert invoke("vta", "simulate", dump, "--json").document["passed"] is None


def test_rejected_program_ends_with_4(invoke: Toolchain, folder: Path) -> None:
    bad = good()
    bad.change(2, push_next=False)
    write_dump(folder / "bad", bad.dump())
    told = invoke("vta", "simulate", "bad")
    assert told.code == 4
    assert told.says("deadlock: load has no more instructions", "toolchain vta disasm bad")
    said = invoke("vta", "simulate", "bad", "--json")
    assert said.code == 4 and said.document["passed"] is False and said.document["model"] is None
    assert (said.document["refused"]["rule"], said.document["refused"]["instruction"]) == ("deadlock", 4)


def test_strict_refuses_what_otherwise_runs(invoke: Toolchain, folder: Path) -> None:
    bad = good()
    bad.change(8, src_factor_in=0)
    write_dump(folder / "bad", bad.dump())
    assert invoke("vta", "simulate", "bad").code == 0
    assert invoke("vta", "simulate", "bad", "--strict").says(
        "instruction 8 (ALU MAX of compute)", "immediate"
    )


def test_a_trace_has_a_track_for_each_stage_and_arrows_for_tokens(invoke: Toolchain, dump: Path) -> None:
    assert invoke("vta", "simulate", dump, "--trace", "trace.json").code == 0
    events = json.loads((dump.parent / "trace.json").read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {0: "load", 1: "compute", 2: "store"}
    ran = [event for event in events if event["ph"] == "X"]
    assert len(ran) == 13
    gemm = ran[4]
    assert gemm["args"]["text"].startswith("GEMM uop 0..1") and names[gemm["tid"]] == "compute"
    tokens = {event["id"]: event for event in events if event["ph"] == "s"}
    taken = {event["id"]: event for event in events if event["ph"] == "f"}
    assert tokens.keys() == taken.keys() == {"L2G 0", "G2S 0", "S2G 0"}
    assert all(tokens[each]["ts"] <= taken[each]["ts"] for each in tokens)
    assert taken["L2G 0"]["ts"] == gemm["ts"] and taken["L2G 0"]["tid"] == gemm["tid"]


def test_refuses_folder_without_dump(invoke: Toolchain, folder: Path) -> None:
    assert invoke("vta", "simulate", folder / "none").code == 2
    assert invoke("vta", "simulate", folder / "none", "--timeout", "0").says("--timeout")


def test_a_trace_that_cannot_be_written(invoke: Toolchain, dump: Path) -> None:
    told = invoke("vta", "simulate", dump, "--trace", dump / "insn.bin" / "trace.json")
    assert told.code == 2 and told.says("trace.json: there is no folder", "insn.bin")


def test_a_trace_makes_no_folder(invoke: Toolchain, dump: Path) -> None:
    told = invoke("vta", "simulate", dump, "--trace", dump / "none" / "such" / "t.json")
    assert told.code == 2 and told.says("t.json: there is no folder", "none/such")
    assert not (dump / "none").exists() and "model" not in told.out, "it was not run"
