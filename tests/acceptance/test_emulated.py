"""An emulated board goes through all steps as a real one does: interrupted, gone on with, left as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolchain.acceptance import choices
from toolchain.acceptance import plan as tuning
from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.document import read_acceptance
from toolchain.acceptance.found import BenchFound, PredictFound, TuneFound, VerifyFound
from toolchain.acceptance.run import AcceptOptions, accept
from toolchain.acceptance.state import read_state, state_file
from toolchain.boards.emulation import emulated

pytestmark = pytest.mark.slow

NAME = "rosalinds-kitchen"
PROGRAM = """
import sys
from toolchain.acceptance import choices
from toolchain.acceptance.choices import NetworkChoice
from toolchain.cli.root import main
choices.NETWORKS = (NetworkChoice(sys.argv.pop(1)),)
sys.exit(main())
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.measuring.small_network import network

    return network(tmp_path_factory.mktemp("rosalind") / "small.onnx")


@pytest.fixture
def root(state: Path) -> Iterator[Path]:
    """Yield the folder of an emulated board that is named after its owner."""
    emulated.start("raspberrypi4", "process", name=NAME)
    yield state / "emulated" / NAME / "root"
    emulated.stop(NAME)


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def interrupt_when(program: subprocess.Popen[str], word: str) -> str:
    """Send SIGINT when the program says a word; return what it said in all."""
    said = []
    ending = threading.Timer(240, program.kill)
    ending.start()
    try:
        assert program.stderr is not None
        for line in program.stderr:
            said.append(line)
            if word in line:
                program.send_signal(signal.SIGINT)
        program.wait(60)
    finally:
        ending.cancel()
    return "".join(said)


def test_the_whole_way(root: Path, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = files(root)
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        str(network),
        "board",
        "accept",
        NAME,
        "-o",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
        cwd=tmp_path,
    ) as program:
        said = interrupt_when(program, "timing own on cpu")
    assert program.returncode == 130 and "Traceback" not in said, said
    assert not (tmp_path / "out").exists()
    assert files(root) - {"state/measure.lock"} == there - {"state/measure.lock"}
    kept = read_state(state_file(NAME))
    assert kept is not None and set(kept.steps) == {"facts", "edge-rt", "verify:cpu:own"}

    monkeypatch.setattr(choices, "NETWORKS", (NetworkChoice(str(network)),))
    monkeypatch.setattr(tuning, "TRIALS", 2)
    notes: list[str] = []
    done = accept(
        emulated.load(NAME), tmp_path / "out", AcceptOptions(120.0), notes.append, lambda _event: None
    )
    assert done.problem(NAME) is None, notes
    assert any("verify:cpu:own: passed before" in note for note in notes)
    results = {step.name: step for step in done.document.steps}
    assert {name: step.result for name, step in results.items()} == {
        "facts": "passed",
        "edge-rt": "passed",
        "rates": "skipped",
        "verify:cpu:own": "passed",
        "self-test": "passed",
        "bench:cpu": "passed",
        "predict:cpu": "passed",
        "tune:cpu": "passed",
    }
    found = {type(step.found): step.found for step in done.document.steps}
    verified, benched = found[VerifyFound], found[BenchFound]
    assert isinstance(verified, VerifyFound) and verified.error is not None and 0 < verified.error < 1e-3
    assert isinstance(benched, BenchFound) and benched.mean_ms > 0 and not benched.real
    predicted, tuned = found[PredictFound], found[TuneFound]
    assert isinstance(predicted, PredictFound)
    assert all(each.measured_ms is None and each.predicted_ms > 0 for each in predicted.predictions)
    assert isinstance(tuned, TuneFound) and tuned.judged == "alone" and tuned.error is not None
    assert all(
        "emulated" in results[name].reason for name in ("bench:cpu", "predict:cpu", "tune:cpu", "rates")
    )
    assert read_acceptance(done.json) == done.document and done.document.emulated
    for file in (done.json, done.html):
        text = file.read_text().lower()
        assert "emulated" in text
        assert not [
            word for word in ("rosalind", "kitchen", str(tmp_path), str(Path.home())) if word.lower() in text
        ]
    assert files(root) - {"state/measure.lock"} == there - {"state/measure.lock"}
