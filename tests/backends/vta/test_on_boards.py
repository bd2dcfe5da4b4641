"""Programs as candidates on a board of this host: sent through a lab, run by the simulation there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from toolchain.backends.vta.backend import Vta, model_evaluator, probe_for
from toolchain.backends.vta.space import Cut, VtaReference, VtaSpace, VtaTask
from toolchain.boards.inventory.lookup import find_board
from toolchain.tasks.candidate import Candidate, FileCode
from toolchain.tasks.evaluator import BuiltCandidate, Evaluator
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.cases import run_cases
from toolchain.tuning.boards.planned import SWITCH
from toolchain.tuning.boards.runner import BoardRunner, board_evaluator
from toolchain.tuning.events import Event
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.preflight import preflight
from toolchain.vta.compiling.blob import blob_of, checked
from toolchain.vta.design import SAMPLES
from toolchain.vta.dumps.convolution import program_of
from toolchain.vta.isa import Gemm
from toolchain.vta.layers.layer import read_shape
from toolchain.vta.layers.region import Knobs

CONFIG = SAMPLES["pynq"]
SHAPE = read_shape("1,14,14,24,40,3,3,1,1,1,1")
TASK = VtaTask("c0ffee00" * 8, "conv2d", 1, 2 * SHAPE.macs, (), SHAPE)
SPACE = VtaSpace(TASK, CONFIG, "sim")
HOW = TuneOptions(repeat=2, builders="1", timeout_s=30)


@pytest.fixture(scope="module", params=["calls", "plans"])
def evaluator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Evaluator]:
    with pytest.MonkeyPatch.context() as patch, run_cases(pytest.fail) as cases:
        patch.setenv(SWITCH, "1" if request.param == "plans" else "")
        patch.setenv("TOOLCHAIN_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        cases.begin(TASK, VtaReference(SHAPE))
        board, events = find_board("local"), list[Event]()
        backend = Vta(board.profile, CodeOptions(device="vta:sim", dtype="int8"))
        with board_evaluator([board], backend.target(), HOW, events.append) as found:
            found.runner.expect(TASK, cases.of(TASK))
            yield found


def ran(evaluator: Evaluator, *built: BuiltCandidate) -> list[Result]:
    return evaluator.runner.run(TASK, built)


def candidates(*points: Knobs) -> list[Candidate]:
    return [SPACE.candidate(point) for point in points]


def test_a_cut_is_code_that_no_linker_knows() -> None:
    assert isinstance(Cut(SHAPE, SPACE.default(), CONFIG), FileCode)
    (data,) = Cut(SHAPE, SPACE.default(), CONFIG, "sim").objects("main")
    assert data.startswith(b"EVTA")


@pytest.mark.slow
def test_a_board_that_simulates_says_what_the_model_says(evaluator: Evaluator) -> None:
    built = evaluator.builder.build(candidates(SPACE.default(), SPACE.points[-1]))
    results = evaluator.runner.check(TASK, built)
    with model_evaluator(CONFIG) as by_model:
        modelled = by_model.runner.check(TASK, built)
    assert [each.run_ms for each in results] == [each.run_ms for each in modelled]
    assert all(each.modelled and each.board == "local" and not each.failure for each in results), results
    assert evaluator.runner.compare(TASK, built, 2) == [ran(evaluator, *built)] * 2, "it does not vary"


@pytest.mark.slow
def test_the_known_good_kernel_goes_the_whole_way_and_watches(evaluator: Evaluator, tmp_path: Path) -> None:
    preflight(probe_for(CONFIG, "sim"), evaluator, tmp_path)
    (built,) = evaluator.builder.build(candidates(SPACE.default()))
    assert not ran(evaluator, built)[0].failure
    assert isinstance(evaluator.runner, BoardRunner)
    (pooled,) = evaluator.runner.pool.all
    first, again = evaluator.runner._read(pooled), evaluator.runner._read(pooled)
    assert first.run_ms == again.run_ms and len(first.run_ms) == 1, (
        "a model's time is no reason to do without"
    )


@pytest.mark.slow
def test_what_fails_is_told_apart_and_costs_the_others_nothing(evaluator: Evaluator, tmp_path: Path) -> None:
    good, *_ = candidates(SPACE.default())
    assert isinstance(good.code, Cut)
    too_large = replace(good, code=replace(good.code, knobs=Knobs(5, 14, 1, 1)))
    other = replace(good, code=replace(good.code, shape=read_shape("1,14,14,24,40,1,1,0,0,1,1")))
    sound, unbuilt, wrong, nothing = evaluator.builder.build([good, too_large, other, good])
    assert sound.library is not None and nothing.library is not None
    whole = sound.library.read_bytes()
    bad = {
        "cut": whole[:-4096],
        "flipped": whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:],
        "revision": checked(whole[:12] + b"\x01" + whole[13:]),
        "empty": b"",
    }
    for name, data in bad.items():
        (tmp_path / f"{name}.bin").write_bytes(data)
    refused = [replace(sound, library=tmp_path / f"{name}.bin") for name in bad]
    absent = replace(nothing, library=tmp_path / "none.bin")
    results = ran(evaluator, unbuilt, wrong, *refused, absent, sound)
    assert [each.failure for each in results] == [
        "build",
        "wrong result",
        *["runtime"] * len(bad),
        "upload",
        None,
    ]
    assert "tile_h=5 does not divide" in results[0].message
    for result in results[2 : 2 + len(bad)]:
        assert "the program is refused: " in result.message
    assert "it was cut" in results[2].message and "checksum" in results[3].message


def endless() -> bytes:
    """Return a program that computes for half a minute or more, and ends."""
    program = program_of(SHAPE, CONFIG, SPACE.default(), 0)
    place = next(at for at, each in enumerate(program.instructions) if isinstance(each, Gemm))
    turns = 2**14 - 1
    idle = Gemm(uop_bgn=0, uop_end=1, iter_out=turns, iter_in=turns)
    before, behind = program.instructions[:place], program.instructions[place:]
    return blob_of(replace(program, instructions=(*before, *[idle] * 3, *behind[3:])))


@pytest.mark.slow
def test_one_that_takes_too_long_is_ended(
    evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(evaluator.runner, BoardRunner)
    (built,) = evaluator.builder.build(candidates(SPACE.default()))
    (tmp_path / "endless.bin").write_bytes(endless())
    with monkeypatch.context() as patch:
        patch.setattr(evaluator.runner, "_options", replace(evaluator.runner._options, timeout_s=3))
        (late,) = ran(evaluator, replace(built, library=tmp_path / "endless.bin"))
    assert late.failure == "timeout" and late.message == "not done within 3 s", late
    assert not ran(evaluator, built)[0].failure, "the board goes on"
