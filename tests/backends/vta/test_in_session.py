"""What a board says of a program that it ran: believed where it can be right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolchain.backends.vta.in_session import UploadedProgram
from toolchain.errors import CheckError
from toolchain.tasks.candidate import Often, Times
from toolchain.vta.design import SAMPLES

CONFIG = SAMPLES["pynq"]
MODEL = {"ms": 0.5, "cycles": 50_000, "mhz": CONFIG.cycles.mhz, "version": CONFIG.cycles.version}
SIMULATED = {"device": "vta:sim", "times_ms": [], "modelled": MODEL}
MEASURED = {"device": "vta:pynq", "times_ms": [1.5, 1.25], "modelled": None}
OFTEN = Often(1, 2, 20)


class Session:
    """Answers as it was told, and keeps what it was asked."""

    def __init__(self, said: object) -> None:
        self.said = said if isinstance(said, int | str) else json.dumps(said)
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def get_function(self, name: str) -> Any:
        def call(*arguments: Any) -> object:
            self.asked.append((name, arguments))
            return self.said

        return call


def times(said: object, driver: str = "") -> Times:
    return UploadedProgram(Session(said), "p.bin", "far", driver, CONFIG).time("main", [], "cpu", OFTEN)


def test_an_accelerators_times_are_a_clocks_and_a_simulations_the_models() -> None:
    assert times(MEASURED) == Times((1.5, 1.25))
    assert times(SIMULATED, "sim") == Times((0.5,), modelled=True)


def test_the_driver_is_said_before_anything_is_run() -> None:
    session = Session(SIMULATED)
    program = UploadedProgram(session, "p.bin", "far", "sim", CONFIG)
    program.run("main", [])
    program.time("main", [], "cpu", OFTEN)
    measure = "edge.vta.measure"
    assert session.asked == [
        ("edge.vta.use", ("sim",)),
        (measure, ("p.bin", 1, 0, 0)),
        (measure, ("p.bin", 1, 2, 20)),
    ]


@pytest.mark.parametrize(
    ("said", "driver", "why"),
    [
        (5, "", "no text"),
        ("{", "", "measure"),
        ({**SIMULATED, "times_ms": "x"}, "sim", "times_ms"),
        (SIMULATED, "pynq", "vta:sim ran what vta:pynq was to run"),
        (MEASURED, "sim", "vta:pynq ran what vta:sim was to run"),
        ({**SIMULATED, "device": "vta:pynq"}, "", "a simulation's a model's"),
        ({**SIMULATED, "modelled": None}, "", "a simulation's a model's"),
        ({**MEASURED, "times_ms": [1.5]}, "pynq", "1 time where 2 were asked for"),
        ({**SIMULATED, "modelled": {**MODEL, "mhz": 99}}, "sim", "at 99 MHz, where the program has"),
        ({**SIMULATED, "modelled": {**MODEL, "version": 9}}, "sim", "cycle model 9"),
        ({**SIMULATED, "modelled": {**MODEL, "cycles": 0}}, "sim", "cycles"),
    ],
)
def test_what_cannot_be_right_is_told_with_its_board(said: object, driver: str, why: str) -> None:
    with pytest.raises(CheckError, match=r"board far: the answer of edge\.vta\.measure.*") as raised:
        times(said, driver)
    assert why in raised.value.message
