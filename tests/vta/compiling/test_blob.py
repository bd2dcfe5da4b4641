"""Programs as a library holds them, cut, padded and changed: against the simulation with sanitizers."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.vta.regions import case
from tests.vta.test_pynq import Board, program  # noqa: F401 - a fixture
from toolchain.vta.compiling.blob import HEADER, checked
from toolchain.vta.design import SAMPLES

pytestmark = pytest.mark.slow

CASES = 500


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory, program: Path) -> Board:  # noqa: F811
    return Board(tmp_path_factory.mktemp("blob"), program)


def answers(board: Board, blobs: Sequence[bytes]) -> list[str]:
    """Return what becomes of each."""
    data = b"".join(struct.pack("<I", len(blob)) + blob for blob in blobs)
    return board("answer", data=data)


def with_number(blob: bytes, place: int, value: int) -> bytes:
    """Return a program with another number in its header, and the checksum that belongs to it."""
    return checked(blob[: 4 * place] + struct.pack("<I", value) + blob[4 * place + 4 :])


def test_a_program_runs(board: Board) -> None:
    sizes = {"log_inp_buff_size": 14, "log_wgt_buff_size": 16, "log_acc_buff_size": 16}
    small = replace(SAMPLES["pynq"], log_block=3, **sizes)
    assert answers(board, [case().blob, case(1, 1).blob, case(config=small).blob]) == ["ran"] * 3


def test_what_is_wrong_is_named(board: Board) -> None:
    blob = case().blob
    numbers = HEADER.unpack_from(blob)
    bad = {
        b"": "it was cut",
        blob[:100]: "it was cut",
        blob[:-1]: f"it has {len(blob) - 1} bytes where its header says {len(blob)}: it was cut",
        blob + b"\0": "it was padded",
        b"EVTB" + blob[4:]: "do not begin with EVTA",
        with_number(blob, 1, 1): "it has form 1 and this edge-rt reads form 2",
        blob[:5000] + bytes([blob[5000] ^ 1]) + blob[5001:]: "its checksum is wrong",
        blob[:50] + bytes([blob[50] ^ 1]) + blob[51:]: "its checksum is wrong",
        with_number(blob, 3, 3): "isa_rev is 3, not from 1 to 2",
        with_number(blob, 5, 9): "log_block is 9",
        with_number(blob, 14, 0): "no bus or no clock",
        with_number(blob, 20, 2**25 + 4096): "at most 33554432 are given",
        with_number(blob, 23, 0): "lie outside its image",
        with_number(blob, 24, 2**22): "lie outside its image",
        with_number(blob, 23, numbers[23] + 8): "do not begin at a multiple of 16",
        with_number(blob, 25, 2000): "2000 inputs",
        with_number(blob, 27, 2**31): "input 0 of shape",
        with_number(blob, 31, 0): "input 0 of shape",
        with_number(blob, 24, numbers[24] - 1): "does not end with FINISH",
    }
    for words, answer in zip(bad.values(), answers(board, list(bad)), strict=True):
        assert words in answer


def test_a_program_stays_within_its_memory(board: Board) -> None:
    blob = case().blob
    numbers = HEADER.unpack_from(blob)
    begin, image_at, at, count = numbers[22], numbers[21], numbers[23], numbers[24]
    for index in range(count):
        place = begin + at - image_at + 16 * index
        (word,) = struct.unpack_from("<Q", blob, place)
        high = struct.unpack_from("<Q", blob, place + 8)[0]
        if word & 7 != 1 or not high:
            continue
        for address, words in ((image_at // 16, "bytes"), (2**32 - 1, "bytes")):  # its constants; far away
            moved = (word & ~(0xFFFFFFFF << 26)) | (address << 26)
            changed = checked(blob[:place] + struct.pack("<Q", moved) + blob[place + 8 :])
            (answer,) = answers(board, [changed])
            assert answer.startswith(f"bounds: instruction {index} (STORE of store): {words}")
        return
    raise AssertionError("no STORE")


@pytest.mark.full
def test_mutated_programs_are_answered(board: Board) -> None:
    blob = case().blob
    blobs = []
    for seed in range(CASES):
        draw = random.Random(seed)
        changed = bytearray(blob)
        for _ in range(draw.choice([1, 1, 2, 20])):
            where = draw.choice([HEADER.size + 64, len(changed), 8192])
            changed[draw.randrange(where)] ^= 1 << draw.randrange(8)
        if draw.random() < 0.2:
            changed = changed[: draw.randrange(len(changed))]
        mutated = bytes(changed)
        blobs.append(checked(mutated) if draw.random() < 0.8 and len(mutated) > 12 else mutated)
    verdicts = answers(board, blobs)
    assert len(verdicts) == CASES and "ran" in verdicts
