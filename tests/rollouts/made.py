"""Outcomes, rules and beginnings for the tests of rollouts."""

from __future__ import annotations

from toolchain.events.rollouts import BoardOutcome, BoardState, FieldTest, LabNumbers, RolloutBegan, Rules

LAB = LabNumbers(board_class="rk3399", error_ppb=400, latency_us=10_000)


def outcome(state: BoardState = "installed", latency_us: int | None = 10_000) -> BoardOutcome:
    test = FieldTest(error_ppb=500, latency_us=latency_us, memory_kib=9000, runs=5) if latency_us else None
    return BoardOutcome(
        state=state, version="2.0.0", test=test, error=None if state == "installed" else "test: slow"
    )


def began(*phases: tuple[str, ...], lab: LabNumbers | None = LAB, version: str = "2.0.0") -> RolloutBegan:
    return RolloutBegan(
        id=f"20260101-000000-tiny-{version}-abcd",
        app="tiny",
        version=version,
        digest="ab" * 32,
        lab=lab,
        phases=phases,
        rules=Rules(),
    )
