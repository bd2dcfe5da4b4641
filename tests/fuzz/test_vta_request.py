"""Requests of `edge-rt vta`: an answer in its form, or one sentence and the end; none sees what another left.

What is tried: programs of any sense, with changed instructions and memory, for any configuration, model,
limits and address; headers with other numbers; requests that are cut. What was answered is asked again, after
another one. It runs the sanitized edge-rt where EDGE_RT names it, as `make fuzz` does.
"""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.child import Child
from tests.fuzz.loop import Attempt, run
from tests.fuzz.sanitized import OPTIONS
from tests.vta.programs import good
from tests.vta.random_programs import any_program
from tests.waiting import PATIENCE_S
from toolchain.answers import understood
from toolchain.runtime import ensure_runtime
from toolchain.vta.machine.requests import CycleCounts, EncodedProgram, Refused, SimOptions, request_of
from toolchain.vta.machine.simulator import host_arch

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

USAGE = 2
HEADER, ANSWER = struct.Struct("<27I"), struct.Struct("<7I")
TIME_ONLY, TIMELINE, NO_MEMORY = 2, 4, 8
FLAGS, STEPS, BYTES, COUNT = 3, 23, 25, 26  # places in the header
MOST_STEPS = 2**12  # what an unoptimized machine does in a second
CONFIGS = ("plain", "revision 1", "batch 2", "block 8")


@cache
def right() -> tuple[EncodedProgram, ...]:
    """Return programs as they should be."""
    plain = good().dump()
    portable = EncodedProgram(plain.config, plain.program, bytes(plain.before), plain.phys_base)
    return portable, *(any_program(seed, config) for seed in range(3) for config in CONFIGS)


@dataclass
class Request:
    """A request; `whole` if what is announced follows, so that another one may follow."""

    numbers: list[int]
    code: bytearray
    memory: bytearray
    whole: bool = True
    cut: int = 0  # bytes that do not come

    @property
    def computes(self) -> bool:
        return not self.numbers[FLAGS] & TIME_ONLY

    @property
    def bytes(self) -> bytes:
        body = bytes(self.code) + (bytes(self.memory) if self.computes else b"")
        return HEADER.pack(*self.numbers) + body[: len(body) - self.cut]


def any_request(random: Random) -> Request:
    """Return a request that is right, or wrong in one or more ways."""
    program = random.choice(right())
    numbers = list(HEADER.unpack(request_of(program, SimOptions(), random.randrange(2**32))))
    code, memory = bytearray(program.code), bytearray(program.memory)
    for part in random.sample((code, memory), random.randrange(3)):
        for _ in range(random.choice((1, 1, 2, 20))):
            part[random.randrange(len(part))] = random.choice((0, 1, 128, 255, random.randrange(256)))
    if random.random() < 0.4:  # the configuration, the model, a limit, the address
        place = random.randrange(4, BYTES)
        near = numbers[place] + random.choice((-1, 1))
        numbers[place] = random.choice((near, random.choice(rpc.LIMITS))) % 2**32
    if random.random() < 0.3:
        del code[16 * random.randrange(len(code) // 16) :]
        del memory[random.randrange(len(memory)) :]
    numbers[FLAGS], numbers[STEPS] = random.randrange(16), min(numbers[STEPS], MOST_STEPS)
    numbers[BYTES], numbers[COUNT] = len(memory), len(code) // 16
    request = Request(numbers, code, memory)
    if random.random() < 0.05:
        numbers[random.choice((0, 1, FLAGS, STEPS, BYTES, COUNT))] = random.choice(rpc.LIMITS) % 2**32
        request.whole = False
    if random.random() < 0.05:
        request.cut, request.whole = random.choice((1, 16, random.randrange(len(code) + 1))), False
    return request


def answered(verb: Child, request: Request) -> bytes:
    """Return what is said to a request that is whole."""
    return b"".join(verb.ask(request.bytes, ANSWER.size, lambda head: sum(ANSWER.unpack(head)[4:])))


def check_the_end(argv: list[str], request: Request) -> None:
    """Check that the verb ends, with an answer or a sentence, where a request is all that it hears."""
    environment = {**os.environ, **OPTIONS}
    done = subprocess.run(
        argv, input=request.bytes, capture_output=True, timeout=PATIENCE_S, env=environment, check=False
    )
    words, code = done.stderr.decode(errors="replace"), done.returncode
    assert code in (0, USAGE) and bool(words) == (code == USAGE), (code, words)
    assert len(words) < 500 and words.count("\n") == (code == USAGE), words
    if code == 0 and done.stdout:
        check_answer(request, done.stdout)


def check_answer(request: Request, answer: bytes) -> None:
    """Check that an answer has its form, and is for the request."""
    numbers = request.numbers
    magic, version, echo, refused, document, memory, timeline = ANSWER.unpack_from(answer)
    assert (magic.to_bytes(4, "little"), version, echo) == (b"VTAA", 1, numbers[2]), "another answer"
    text = answer[ANSWER.size : ANSWER.size + document]
    if refused:
        said = understood(Refused, text, "edge-rt", "its answer")
        assert (memory, timeline) == (0, 0) and said.message.isprintable(), said
        assert said.instruction is None or said.instruction < max(1, numbers[COUNT]), said
        return
    understood(CycleCounts, text, "edge-rt", "its answer")
    with_memory = request.computes and not numbers[FLAGS] & NO_MEMORY
    wanted = numbers[BYTES] * with_memory, 16 * numbers[COUNT] * bool(numbers[FLAGS] & TIMELINE)
    assert (memory, timeline) == wanted, f"{memory} and {timeline} bytes, not {wanted}"


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what makes one request, and makes it again after another one."""
    argv = [os.environ.get("EDGE_RT") or str(ensure_runtime(host_arch()).program), "vta"]
    with tempfile.TemporaryDirectory() as folder, Child(argv, Path(folder) / "words") as verb:

        def attempt(random: Random) -> None:
            request, other = any_request(random), any_request(random)
            if not request.whole:
                return check_the_end(argv, request)
            first = answered(verb, request)
            check_answer(request, first)
            if not other.whole or random.random() < 0.7:
                return None
            check_answer(other, answered(verb, other))
            assert answered(verb, request) == first, "asked again, it answers otherwise"
            return None

        yield attempt


def test_hundreds_of_requests_are_answered() -> None:
    run("vta_request", harness, seed=20261, cases=300)
