"""A deadline ends what hangs and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.errors import UsageError
from toolchain.measuring.deadlines import deadline, deadline_on, given_deadline
from toolchain.measuring.execution import OnBoard
from toolchain.profiles import load_profile

RK3399 = load_profile("rk3399")


BOARD = SimpleNamespace(profile=RK3399, emulated=True)
MANIFEST = SimpleNamespace(model=SimpleNamespace(flops=1e12), device="cpu")


def test_timeout_replaces_computed_deadline() -> None:
    given = deadline_on(OnBoard(BOARD, timeout=2.5, wait=60.0), MANIFEST)
    assert (given.seconds, given.reason) == (2.5, "given by --timeout")


def test_waiting_is_added_to_computed_deadline() -> None:
    computed = deadline(1e12, RK3399, emulated=True, runs=2, extra_s=65.0)
    assert deadline_on(OnBoard(BOARD, wait=60.0), MANIFEST, runs=2, extra_s=5.0) == computed


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
def test_refuses_timeout_that_is_not_positive(timeout: float) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        given_deadline(timeout)


@given(st.floats(1, 1e12), st.integers(1, 100), st.floats(0, 1e4))
def test_more_work_and_emulation_get_more_time(flops: float, runs: int, extra: float) -> None:
    native = deadline(flops, RK3399, emulated=False, runs=runs, extra_s=extra).seconds
    assert native >= 30 + extra - 0.1
    assert deadline(flops, RK3399, emulated=True, runs=runs, extra_s=extra).seconds >= native
    assert deadline(flops, RK3399, emulated=False, runs=runs + 1, extra_s=extra).seconds >= native
    assert deadline(flops, load_profile("x86_64"), emulated=False, runs=runs, extra_s=extra).seconds <= native


@given(st.floats(1, 1e12), st.booleans())
def test_unmeasured_device_gets_slowest_rate(flops: float, emulated: bool) -> None:
    found = deadline(flops, RK3399, emulated=emulated, device="vta:1x16x16")
    slowest = deadline(flops, load_profile("pynq"), emulated=True)
    assert found.seconds == slowest.seconds
    assert found.reason.endswith(f"on vta:1x16x16 of an {'emulated ' * emulated}aarch64 board")


def test_deadline_includes_driver_compilation() -> None:
    known, unknown = (deadline(1e9, RK3399, emulated=False, device=name) for name in ("opencl:a", "vta:a"))
    assert known.seconds == unknown.seconds + 300


def test_reason_states_work_and_board() -> None:
    assert deadline(1.14e9, RK3399, emulated=True, runs=4).reason == (
        "for 4 x 1.1 GFLOP on an emulated aarch64 board"
    )
    assert "20.0 GFLOP" in deadline(0, RK3399, emulated=False).reason


def test_deadline_is_capped_at_two_weeks() -> None:
    assert deadline(2.0**63, RK3399, emulated=True, runs=10**6).seconds == 14 * 86400
