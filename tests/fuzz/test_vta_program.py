"""Programs for a VTA as libraries hold them: refused in a sentence, or placed in their own memory alone.

What is tried: programs of our generator with other numbers in their headers, descriptions and instructions,
cut and padded ones, most with the checksum that belongs to them; at addresses where memory may and may not
lie. What becomes of one is compared with what Python makes of the same bytes. edge-rt's reader is compiled
with sanitizers.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.child import Child
from tests.fuzz.loop import Attempt, run
from tests.vta.compiled import drivers
from tests.vta.regions import case
from toolchain.errors import UsageError
from toolchain.vta.compiling.blob import DESCRIPTION, HEADER, checked, relocated
from toolchain.vta.design import SAMPLES, Sram, VtaConfig
from toolchain.vta.isa import Load, Store, decode_program, encode

pytestmark = pytest.mark.slow  # it is compiled

PYNQ = SAMPLES["pynq"]
BLOCKS_OF_8 = {"log_block": 3, "log_inp_buff_size": 14, "log_wgt_buff_size": 16, "log_acc_buff_size": 16}
PAGES, NO_PAGES = (0, 0x1000, 0x3000_0000, 0x10000), (0xFFFF_F000, 1, 0x80, 0xFFFF_FFFF)
_CODE_AT, _CODE_COUNT = 23, 24  # places in the header


@cache
def right() -> tuple[tuple[bytes, VtaConfig], ...]:
    """Return programs as they should be."""
    old, small = replace(PYNQ, hw_ver="0.0.1"), replace(PYNQ, **BLOCKS_OF_8)
    return (case().blob, PYNQ), (case(1, 1).blob, old), (case(config=small).blob, small)


def code_of(blob: bytes) -> tuple[int, int]:
    """Return where the instructions begin and end."""
    numbers = HEADER.unpack_from(blob)
    begin = numbers[22] + numbers[_CODE_AT] - numbers[21]
    return begin, begin + 16 * numbers[_CODE_COUNT]


def any_number(random: Random, was: int) -> int:
    """Return a number of 32 bits that is another one."""
    near = was + random.choice((-4096, -256, -16, -1, 1, 16, 256, 4096))
    return random.choice((near, was ^ 1 << random.randrange(32), random.choice(rpc.LIMITS))) % 2**32


def changed(random: Random, blob: bytes) -> bytes:
    """Return a program of which some is wrong."""
    out = bytearray(blob)
    begin, end = code_of(blob)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        match random.randrange(8):
            case 0 | 1:  # a number of the header, or of a description
                at = 4 * random.randrange(1, (HEADER.size + 2 * DESCRIPTION.size) // 4)
                struct.pack_into("<I", out, at, any_number(random, struct.unpack_from("<I", out, at)[0]))
            case 2 | 3:
                at = random.randrange(begin, end)
                out[at] ^= 1 << random.randrange(8)
            case 4:  # a field of an instruction, whichever
                at = random.randrange(begin, end, 2)
                struct.pack_into("<H", out, at, random.choice(rpc.NUMBERS) % 2**16)
            case 5:
                first, second = (random.randrange(begin, end, 16) for _ in range(2))
                out[first : first + 16] = out[second : second + 16]
            case 6:  # a micro-op or a weight
                out[random.randrange(HEADER.size, len(out))] = random.randrange(256)
            case _:
                return rpc.mutated(random, bytes(out))
    return bytes(out)


def placed(child: Child, blob: bytes, address: int) -> bytes | str:
    """Return the memory before a run, or why there is none."""
    request = struct.pack("<II", address, len(blob)) + blob
    head, data = child.ask(request, 8, lambda head: struct.unpack("<II", head)[1])
    return data if head[0] else data.decode()


def check_placed(blob: bytes, config: VtaConfig | None, address: int, memory: bytes) -> None:
    """Check that the memory is what Python would put there, and that no instruction leaves it."""
    numbers = HEADER.unpack_from(blob)
    size, image_at, begin, at, count = numbers[20:25]
    assert len(memory) == size and address + size <= 2**32, "other memory"
    assert at % 16 == 0, "hardware would run other bytes"
    code = slice(at, at + 16 * count)
    whole = bytes(image_at) + blob[begin:]
    assert (memory[:at], memory[code.stop :]) == (whole[:at], whole[code.stop :]), "another image"
    if config is None:
        return  # a machine that Python has no name for
    try:
        instructions = decode_program(whole[code], config)
    except UsageError:  # bits that must be zero: the machine does not mind them
        return
    moved = relocated(instructions, address, config)
    for place, (each, there) in enumerate(zip(instructions, moved, strict=True)):
        word = slice(at + 16 * place, at + 16 * place + 16)
        right = int.from_bytes(whole[word], "little")
        if each != there:  # all of its other bits stay, those too that nobody looks at
            right ^= encode(each, config) ^ encode(there, config)
        assert int.from_bytes(memory[word], "little") == right, f"{place}: {each} is {memory[word].hex()}"
        if not isinstance(each, Load | Store) or not each.y_size or not each.x_size:
            continue
        last = each.dram_base + (each.y_size - 1) * each.x_stride + each.x_size
        memory_type = each.memory if isinstance(each, Load) else Sram.OUT
        end = last * config.buffers[memory_type].element_bytes
        assert end <= (image_at if isinstance(each, Store) else size), f"{each} leaves the memory"


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what gives edge-rt's reader one program."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Child([drivers(), "place"], Path(folder) / "words") as child,
    ):

        def attempt(random: Random) -> None:
            good, config = random.choice(right())
            blob = changed(random, good) if random.random() < 0.95 else good
            if random.random() < 0.9 and len(blob) > HEADER.size:
                blob = checked(blob)
            address = random.choice((*PAGES, *NO_PAGES)) if random.random() < 0.3 else PAGES[-1]
            answer = placed(child, blob, address)
            if isinstance(answer, bytes):
                check_placed(blob, config if blob[12:40] == good[12:40] else None, address, answer)
            else:
                assert answer.isprintable() and len(answer) < 500, f"not for people: {answer!r}"
                assert blob != good or address in NO_PAGES, f"refused though it is right: {answer}"

        yield attempt


def test_hundreds_of_programs_are_refused_or_placed() -> None:
    run("vta_program", harness, seed=20261, cases=600)
