"""Times and amounts of work: four digits, and the unit that fits."""

from __future__ import annotations

import ast
import math
import re
from itertools import pairwise
from pathlib import Path

import pytest

import toolchain
from toolchain.quantities import UNKNOWN, counted, shown_flops, shown_gflops, shown_ms, time_unit

PACKAGE = Path(toolchain.__file__).parent

TIMES = {
    None: UNKNOWN,
    math.nan: UNKNOWN,
    math.inf: UNKNOWN,
    0.0: "0 ms",
    0.00000012: "0.120 ns",
    0.0002: "200.0 ns",
    0.0123: "12.30 µs",
    0.9: "900.0 µs",
    0.99996: "1.000 ms",
    1.0: "1.000 ms",
    84.5678: "84.57 ms",
    999.94: "999.9 ms",
    999.96: "1.000 s",
    12345.6: "12.35 s",
    2_000_000.0: "2000 s",
}
"""Milliseconds, and how they are shown; the page's script is held to the same."""


@pytest.mark.parametrize(("ms", "shown"), TIMES.items())
def test_a_time_has_four_digits_and_the_unit_of_its_size(ms: float | None, shown: str) -> None:
    assert shown_ms(ms) == shown


@pytest.mark.parametrize(
    ("flops", "shown"),
    [
        (None, UNKNOWN),
        (0, "0 FLOP"),
        (640, "640 FLOP"),
        (999.97, "1.000 kFLOP"),
        (36_928, "36.93 kFLOP"),
        (451_584, "451.6 kFLOP"),
        (3_648_000_000, "3.648 GFLOP"),
        (2.5e15, "2500 TFLOP"),
    ],
)
def test_work_has_the_unit_of_its_size(flops: float | None, shown: str) -> None:
    assert shown_flops(flops) == shown


def test_a_slow_speed_is_not_shown_as_none() -> None:
    assert [shown_gflops(value) for value in (None, 0.027, 20.3)] == [
        UNKNOWN,
        "27.00 MFLOP/s",
        "20.30 GFLOP/s",
    ]


def test_an_axis_has_the_unit_of_its_longest_time() -> None:
    assert [time_unit(value) for value in (0.0, 0.02, 3.0, 4000.0)] == [
        *(("ms", 1.0), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3)),
    ]


def test_one_is_singular_and_all_other_numbers_are_plural() -> None:
    assert [counted(number, "board") for number in (0, 1, 2)] == ["0 boards", "1 board", "2 boards"]
    assert counted(1, "entry", "entries") == "1 entry" and counted(3, "entry", "entries") == "3 entries"
    assert counted(1, "more task") == "1 more task"
    assert counted(1, "step", form="g") == "1 step" and counted(1.0, "step", form="g") == "1 step"
    assert counted(1.5, "step", form="g") == "1.5 steps" and counted(0.9996, "step", form=".3g") == "1 step"
    assert counted(12_345, "byte", form=",") == "12,345 bytes"


NOUNS = (
    "boards|tasks|trials|candidates|records|files|networks|functions|samples|images|inputs|outputs|shapes|"
    "axes|channels|places|values|keys|signatures|tokens|parts|threads|lanes|units|rounds|repeats"
)
"""Nouns that are counted where the number may be 1; most messages of bytes tell of a limit that is passed."""

NO_NUMBER_OR_MORE_THAN_ONE = {
    "backends/packed/loops/tile.py {channels} channels": "no multiple of a product's depth",
    "backends/vta/backend.py {len(model.shapes)} shapes": "where one would be right",
    "boards/emulation/qemu.py {profile.name} boards": "a name",
    "boards/emulation/system/board.py {profile.arch} boards": "a name",
    "building/several.py {count} shapes": "networks in several shapes",
    "bundles/layout.py {tensors} inputs": "more than a bundle may have",
    "cli/model_options.py {len(options.several.choices)} shapes": "where one would be right",
    "doctor/diagnosis.py {arch} boards": "a name",
    "images/debian/system.py {debian} boards": "a name",
    "models/options.py {len(batches) * steps} shapes": "more than a bundle may have",
    "models/reading/formats.py {self.name} files": "a name",
    "releases/envelope.py {len(signatures)} signatures": "more than are allowed",
    "releases/envelope.py {count} values": "more than are allowed",
    "vta/lint/tokens.py {tokens.most_waiting} tokens": "more than are counted",
}
"""Where a plural behind braces is right, with the reason."""


def test_numbers_get_their_nouns_by_the_function_for_it() -> None:
    """A number before a plural is `1 boards` sooner or later."""
    counting = re.compile(rf" (more |other |trusted )?({NOUNS})\b")
    plain = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = str(file.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(file.read_text())):
            for number, text in pairwise(node.values if isinstance(node, ast.JoinedStr) else ()):
                if isinstance(number, ast.FormattedValue) and isinstance(text, ast.Constant):
                    value, noun = ast.unparse(number.value), counting.match(str(text.value))
                    if noun and not value.strip("_").isupper():
                        plain.append(f"{name} {{{value}}}{noun[0]}")
    assert sorted(plain) == sorted(NO_NUMBER_OR_MORE_THAN_ONE), "use `counted`"
