"""The user's time, divided among steps."""

from __future__ import annotations

from toolchain.acceptance.timing import TimeLeft


def test_steps_begin_while_there_is_time_by_their_pace() -> None:
    now = [100.0]
    left = TimeLeft(60.0, lambda: now[0])
    assert left.fits("verify:cpu", 1e9), "nothing is known of its pace yet"
    left.note("verify:cpu", 2.0, 20.0)
    assert left.fits("verify:cpu", 5.9) and not left.fits("verify:cpu", 6.1)
    assert left.fits("verify:opencl", 100.0)
    now[0] = 161.0
    assert not left.fits("verify:opencl", 0.0) and left.left_s == -1.0


def test_a_part_has_bounds() -> None:
    now = [0.0]
    left = TimeLeft(100.0, lambda: now[0])
    assert left.part(0.1, 2.0, 30.0) == 10.0
    assert left.part(0.9, 2.0, 30.0) == 30.0
    now[0] = 200.0
    assert left.part(0.1, 2.0, 30.0) == 2.0
