"""The installer in edge-rt itself, with a network that TVM compiled."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.field.board import Board, problem
from tests.field.real import Real, real
from tests.field.toy import npy
from tests.runtime.networks import dense
from toolchain.runtime import ensure_runtime

pytestmark = pytest.mark.slow


@pytest.fixture
def board(tmp_path: Path) -> Board:
    """A board that trusts."""
    made = Board(tmp_path, program=(ensure_runtime("x86_64").program,))
    made.trust()
    return made


def _now(release: Real) -> Real:
    """Return the release, issued an hour ago by this machine's clock, which edge-rt reads."""
    now = int(time.time())
    return replace(release, changes={**release.changes, "issued": now - 3600, "expires": now + 3600})


def test_a_network_is_installed_updated_and_rolled_back(board: Board) -> None:
    old, new = _now(real("1.0.0")), _now(real("2.0.0", bias=1.0))
    assert board.install(old)["end"] == "installed"
    assert problem(board, old) == ""
    install = board.begin()
    install.send(new.head())
    install.send_parts(new)
    end = install.end()
    assert (end["end"], end["test"]["runs"]) == ("installed", 3), end
    assert 0 <= end["test"]["error_ppb"] < 10_000
    assert end["received"] < len(new.parts["library.so"])  # it is the old one's
    assert problem(board, new) == ""
    assert board.install(new)["end"] == "unchanged"
    code, said = board.call("rollback", "--app", "toy")
    assert (code, said[-1]["end"]) == (0, "rolled-back")
    assert problem(board, old) == ""
    assert board.install(old)["end"] == "unchanged", "it is older than what was here, and in use"
    assert board.install(new)["end"] == "installed"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"requires": {"features": ["no-such-feature"]}}, "requires"),
        ({"requires": {"functions": ["no.such.function"]}}, "function"),
        ({"requires": {"tvm": "0.1"}}, "runtime"),
        ({"requires": {"glibc": "9.99"}}, "runtime"),
        ({"requires": {"arch": "aarch64"}}, "runtime"),
        ({"run": {"device": "opencl:99"}}, "device"),
        ({"budget": {"latency_us": 1}}, "slow"),
        ({"budget": {"memory_kib": 1}}, "memory"),
    ],
)
def test_what_does_not_fit_is_refused(board: Board, changes: dict[str, dict[str, object]], code: str) -> None:
    release = _now(real("1.0.0"))
    asked = {key: {**release.changes[key], **value} for key, value in changes.items()}
    end = board.install(replace(release, changes={**release.changes, **asked}))
    assert (end["end"], end["cause"]["code"]) == ("refused", code), end
    assert board.current() is None


def test_wrong_outputs_are_refused(board: Board) -> None:
    release = _now(real("1.0.0"))
    release.parts["expected/1.npy"] = release.parts["expected/0.npy"]
    end = board.install(release)
    assert (end["end"], end["cause"]["code"]) == ("refused", "wrong"), end
    assert "output 1" in end["cause"]["message"]


@pytest.mark.parametrize("by_parts", [False, True])
def test_wrong_outputs_of_a_small_part_are_refused(board: Board, by_parts: bool) -> None:
    """The first row of `dense`'s first output is 50 times as large as the others."""
    sample = np.array([[50], [1], [1], [1]], "f4") * np.linspace(0.5, 1, 8, dtype="f4")
    bias = np.zeros(16, "f4")
    hidden, powers = dense(sample, bias)
    hidden[3] = 0  # a fiftieth of the largest value
    compared = {"compare": "values", "tolerance_ppb": 60_000_000, "step": None, "values": None}
    outputs = [compared | {"parts": {"0": [1, 4]}}, compared | {"parts": {}}] if by_parts else [compared] * 2
    release = _now(real("1.0.0", test={"runs": 1, "timeout_s": 120, "outputs": outputs}))
    arrays = {
        "sample/0.npy": sample,
        "sample/1.npy": bias,
        "expected/0.npy": hidden,
        "expected/1.npy": powers,
    }
    release.parts.update({name: npy(array) for name, array in arrays.items()})
    end = board.install(release)
    if by_parts:
        assert (end["end"], end["cause"]["code"]) == ("refused", "wrong"), end
        assert "output 0" in end["cause"]["message"]
    else:
        assert end["end"] == "installed", end
