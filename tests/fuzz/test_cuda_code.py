"""The container of machine code for GPUs in a library: refused in a sentence, or the best code is taken.

What is tried: containers of any units, with names and codes that are there twice, missing or cut, with other
numbers, and with other bytes. What becomes of one is compared with what Python makes of the same bytes. The
GPU is one that the emulated driver claims to be and has no code for: all code that edge-rt takes is the
driver's to refuse. It runs the sanitized edge-rt where EDGE_RT names it, as `make fuzz` does.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.loop import Attempt, run
from tests.fuzz.sanitized import OPTIONS
from tests.runtime import cuda_network
from tests.runtime.test_cuda_code import cubin
from tests.waiting import PATIENCE_S
from toolchain.host import host_profile
from toolchain.lowering.dialects.cuda import MAGIC, VERSION
from toolchain.runtime import arch_of, ensure_runtime
from toolchain.testbeds.cuda import ensure_emulated_cuda

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

FAILED, USAGE = 1, 2
KERNEL = b"plus_one_kernel"  # the one that the library begins
WHOLE = cubin()
BROKEN = (b"", WHOLE[:63], WHOLE[:64], WHOLE[:-1], bytes(128))
ROOM = 2000  # bytes of the container in the library
CAPABILITY, DRIVER = 89, 13000
ARCHITECTURES = (0, 80, 86, 89, 90, 120, 2**31, 2**32 - 1)
NAMES = (KERNEL, b"other", b"", b'"\\', b"two\nlines", b"\xff\xfe", b"\x1b[31m", "Gerät".encode())


@dataclass(frozen=True)
class Unit:
    """Kernels, and codes with their architecture and version of CUDA."""

    names: list[bytes]
    codes: list[tuple[int, int, bytes]]


def any_code(random: Random) -> tuple[int, int, bytes]:
    image = WHOLE
    if random.random() < 0.2:
        image = random.choice(BROKEN)
    version = random.choice((DRIVER, DRIVER, 12080, 13010, 14000, random.choice(rpc.LIMITS) % 2**32))
    return random.choice(ARCHITECTURES), version, image


def any_container(random: Random) -> bytes:
    """Return a container that is right, or wrong in one or more ways."""
    names = [KERNEL] if random.random() < 0.9 else []
    names += [random.choice(NAMES[random.random() < 0.9 :]) for _ in range(random.choice((0, 0, 1, 3)))]
    units, left = list[Unit](), list(names)
    for _ in range(random.choice((1, 1, 2, 3))):
        mine, left = (left[:1], left[1:]) if random.random() < 0.5 else (left, [])
        units.append(Unit(mine, [any_code(random) for _ in range(random.choice((0, 1, 1, 2)))]))
    version = VERSION if random.random() < 0.97 else random.choice(rpc.LIMITS) % 2**32
    data = MAGIC + struct.pack("<II", version, len(units)) + b"".join(map(_packed, units))
    data += struct.pack("<I", ROOM - len(data) - 4 + random.choice((0,) * 20 + (-1, 1)))
    data += b"c" * (ROOM - len(data))
    if random.random() < 0.4:
        end = random.choice((60, 300, len(data)))  # what is said of the code stands at the beginning
        data = rpc.mutated(random, data[:end]) + data[end:]
    return data[:ROOM].ljust(ROOM, b"c")


def _packed(unit: Unit) -> bytes:
    data = struct.pack("<I", len(unit.names))
    data += b"".join(struct.pack("<I", len(name)) + name for name in unit.names)
    data += struct.pack("<I", len(unit.codes))
    return data + b"".join(struct.pack("<IIQ", a, v, len(image)) + image for a, v, image in unit.codes)


class DamagedError(Exception):
    """The bytes end too early, or a kernel's name is not an identifier."""


class Container:
    """What bytes say, read as lowering/dialects/cuda.py describes them."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 12

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise DamagedError
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size), "little")

    def name(self) -> bytes:
        name = self.take(self.number())
        if not re.fullmatch(rb"\w+", name):
            raise DamagedError
        return name

    def units(self) -> list[Unit]:
        """Return them; the comment ends the bytes."""
        units = []
        for _ in range(self.number()):
            names = [self.name() for _ in range(self.number())]
            codes = [(self.number(), self.number(), self.take(self.number(8))) for _ in range(self.number())]
            units.append(Unit(names, codes))
        self.take(self.number())
        if self._at != len(self._data):
            raise DamagedError
        return units


def wanted(data: bytes) -> Sequence[str]:
    """Return what edge-rt says to a container: one of these."""
    if data[:8] != MAGIC:
        return ("holds CUDA source",)
    if data[8:12] != struct.pack("<I", VERSION):
        return ("the library's code has format ",)
    try:
        every = Container(data).units()
    except DamagedError:
        return ("the library's code is damaged: ",)
    images = {image for unit in every for _, _, image in unit.codes}
    if images.intersection(BROKEN):
        return ("the library's code is damaged: its code for ",)
    units = [unit for unit in every if unit.names]
    names = [name for unit in units for name in unit.names]
    if len(set(names)) < len(names) or KERNEL not in names:
        return ("the library's code is damaged: ",)
    problems = [problem for unit in units if (problem := _problem(unit))]
    said = problems[0] if problems else f"code for {_name(_best(units[0])[0])} of "
    # An image that was changed somewhere may still be whole.
    return (said, "the library's code is damaged: its code for ") if images - {WHOLE} else (said,)


def _best(unit: Unit) -> tuple[int, int]:
    fitting = [(a, v) for a, v, _ in unit.codes if a // 10 == CAPABILITY // 10 and a <= CAPABILITY]
    return max(fitting, key=lambda code: code[0], default=(-1, 0))


def _problem(unit: Unit) -> str:
    architecture, version = _best(unit)
    if architecture < 0:
        return "the library has no code for "
    newer = version // 1000 > DRIVER // 1000 and version < 2**31
    return "the library's code was compiled by CUDA " if newer else ""


def _name(architecture: int) -> str:
    return f"sm_{architecture}"


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what gives edge-rt a library with one container."""
    program = os.environ.get("EDGE_RT") or str(ensure_runtime(arch_of(host_profile())).program)
    room = MAGIC + struct.pack("<III", VERSION, 0, ROOM - 20) + bytes(ROOM - 20)
    library = cuda_network.plus_one(1024, 16, code=[], damage=lambda _: room)
    at = library.index(room)
    environment = {
        **os.environ,
        **OPTIONS,
        "EDGE_CUDA_DRIVER": str(ensure_emulated_cuda()),
        "EDGE_CUDA_CAPABILITY": f"{CAPABILITY // 10}.{CAPABILITY % 10}",
        "EDGE_CUDA_VERSION": str(DRIVER),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "x.npy", np.zeros(1024, "f4"))
        argv = [program, "run", folder / "net.so", "--input", folder / "x.npy", "--device", "cuda"]
        argv += ["--output", folder / "y.npz", "--state", folder / "state"]

        def attempt(random: Random) -> None:
            data = any_container(random)
            (folder / "net.so").write_bytes(library[:at] + data + library[at + ROOM :])
            done = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)
            said = done.stderr.decode(errors="replace")
            assert done.returncode in (FAILED, USAGE), f"it ended with {done.returncode}: {said}"
            assert "runtime error" not in said and "Sanitizer" not in said, said
            message = json.loads(done.stdout)["error"]["message"]
            assert message.isprintable() and len(message) < 500, f"not for people: {message!r}"
            assert any(each in message for each in wanted(data)), (message, wanted(data))

        yield attempt


def test_a_hundred_containers_are_refused_or_the_best_code_is_taken() -> None:
    run("cuda_code", harness, seed=20281, cases=100)
