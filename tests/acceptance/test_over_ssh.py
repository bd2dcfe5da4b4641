"""A board over SSH: its system is asked for clocks and kernel, and left as it was."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.boards.ssh.sshd import Sshd, sshd
from toolchain.acceptance import choices
from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.found import FactsFound, PredictFound, VerifyFound
from toolchain.acceptance.run import AcceptOptions, accept
from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.ssh.transport import SshTransport
from toolchain.profiles import Profile

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


def test_this_host_as_a_board_over_ssh(
    server: Sshd, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.measuring.small_network import network

    assert state
    monkeypatch.setattr(choices, "NETWORKS", (NetworkChoice(str(network(tmp_path / "small.onnx"))),))
    root = tmp_path / "rosalind"
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "theirs.so").write_text("theirs")
    transport = SshTransport(server.address(name="kitchen"), str(root))
    local = find_board("local")
    board = replace(local, name="kitchen", transport=transport, profile=_cpu_alone(local.profile))
    options = AcceptOptions(60.0, skips=("tune", "rates", "bench"))
    notes: list[str] = []
    try:
        done = accept(board, tmp_path / "out", options, notes.append, lambda _event: None)
    finally:
        transport.close()
    results = {step.name: step.result for step in done.document.steps}
    assert results.pop("facts") in ("passed", "missed"), notes
    assert {name for name, result in results.items() if result == "skipped"} == {
        "tune:cpu",
        "rates",
        "bench:cpu",
    }
    assert {name for name, result in results.items() if result == "passed"} == {
        "edge-rt",
        "verify:cpu:own",
        "predict:cpu",
        "self-test",
    }, notes
    found = {type(step.found): step.found for step in done.document.steps}
    facts, verified, predicted = found[FactsFound], found[VerifyFound], found[PredictFound]
    assert isinstance(facts, FactsFound) and facts.kernel and platform.release().startswith(facts.kernel)
    assert isinstance(verified, VerifyFound) and verified.real
    assert isinstance(predicted, PredictFound)
    (row,) = predicted.predictions
    assert row.measured_ms and row.ratio and row.share and 0 < row.share <= 1
    for file in (done.json, done.html):
        text = file.read_text().lower()
        assert [word for word in ("rosalind", "kitchen", str(tmp_path), "127.0.0.1") if word in text] == []
    left = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert left - {"state/measure.lock"} == {"lib/theirs.so"}


def _cpu_alone(profile: Profile) -> Profile:
    devices = tuple(device for device in profile.devices if device.kind == "cpu")
    return profile.model_copy(update={"devices": devices})
