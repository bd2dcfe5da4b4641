"""`edge-rt vta` and what is no request."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.vta.eight_vectors import EightVectors
from toolchain.runtime.cache import ensure_runtime
from toolchain.vta.machine import simulator
from toolchain.vta.machine.requests import SimOptions, request_of

pytestmark = pytest.mark.slow

HEADER = 27 * 4


def request(**numbers: int) -> bytes:
    """Return a request, numbers of its header changed: by their places."""
    program = EightVectors().program()
    header = bytearray(request_of(program, SimOptions(), 7))
    for place, value in numbers.items():
        struct.pack_into("<I", header, 4 * int(place[1:]), value)
    return bytes(header) + program.code + program.memory


def answer(data: bytes) -> tuple[int, bytes, str]:
    """Return exit code, output, and the last line of the errors."""
    program = ensure_runtime(simulator.host_arch()).program
    done = subprocess.run([program, "vta"], input=data, capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr.decode()


def documents(output: bytes) -> list[tuple[int, bool, Any]]:
    """Return the answers: id, whether it was refused, document."""
    parsed = []
    while output:
        magic, version, number, refused, *sizes = struct.unpack_from("<7I", output)
        assert (magic, version) == (0x41415456, 1)
        parsed.append((number, bool(refused), json.loads(output[28 : 28 + sizes[0]])))
        output = output[28 + sum(sizes) :]
    return parsed


def test_process_ends_at_end_of_input() -> None:
    assert answer(b"") == (0, b"", "")


def test_requests_are_answered_in_order() -> None:
    code, output, errors = answer(request(n2=1) + request(n2=2, n4=3) + request(n2=3))
    assert (code, errors) == (0, "")
    assert [(number, refused) for number, refused, _ in documents(output)] == [
        (1, False),
        (2, True),
        (3, False),
    ]


CUT: dict[str, Callable[[bytes], bytes]] = {
    "header": lambda whole: whole[:50],
    "instructions": lambda whole: whole[: HEADER + 33],
    "arena": lambda whole: whole[:-1],
}


@pytest.mark.parametrize("part", CUT)
def test_refuses_a_truncated_request(part: str) -> None:
    code, output, errors = answer(request(n2=1) + CUT[part](request()))
    assert code == 2 and part in errors and errors.startswith("edge-rt: a request was cut")
    assert output.startswith(b"VTAA")  # the first was answered


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"n0": 0}, "no request"),
        ({"n1": 2}, "version 2"),
        ({"n3": 16}, "flags 16"),
        ({"n23": 2**31}, "steps 2147483648"),
        ({"n25": 2**25 + 1}, "arena_bytes 33554433"),
        ({"n25": 2**32 - 1}, "arena_bytes 4294967295"),
        ({"n26": 2**21 + 1}, "instructions 2097153"),
        ({"n26": 2**32 - 1}, "instructions 4294967295"),
    ],
)
def test_refuses_an_inconsistent_header(numbers: dict[str, int], words: str) -> None:
    code, _, errors = answer(request(**numbers))
    assert code == 2 and words in errors


@pytest.mark.parametrize("place", range(4, 11))
@pytest.mark.parametrize("value", [0, 1, 3, 25, 31, 32, 255, 2**31, 2**32 - 1])
def test_any_configuration_is_answered(place: int, value: int) -> None:
    code, output, _ = answer(request(**{f"n{place}": value}))
    assert code == 0 and len(documents(output)) == 1


@pytest.mark.parametrize("place", [*range(11, 25)])
@pytest.mark.parametrize("value", [0, 1, 2**30, 2**32 - 1])
def test_any_model_and_any_limit_is_answered(place: int, value: int) -> None:
    code, output, _ = answer(request(**{f"n{place}": min(value, 2**30) if place == 23 else value}))
    assert code == 0 and len(documents(output)) == 1


def test_refuses_arguments() -> None:
    program = ensure_runtime(simulator.host_arch()).program
    done = subprocess.run([program, "vta", "x"], capture_output=True, timeout=60)
    assert done.returncode == 2 and b"unexpected argument x" in done.stderr
