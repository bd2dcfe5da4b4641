"""Verify is worth its name: a library that computes something else fails, whatever its sums say."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from elftools.elf.elffile import ELFFile
from onnx import numpy_helper

from tests.building.network import network
from toolchain.boards.board import Board
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.bundles.write import write_bundle
from toolchain.errors import ToolchainError
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

pytestmark = pytest.mark.slow

CHANNEL = 6
# Intel SDM, volume 2: VFMADD132PS/SS, 213, 231 and VFNMADD… differ in bit 2 of the opcode.
MULTIPLY_ADD = {0x98, 0x99, 0xA8, 0xA9, 0xB8, 0xB9}
NEGATED = 0x04
CANDIDATES = 60


def verified(bundle: Bundle, board: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `toolchain verify` as a user does."""
    done = subprocess.run(
        [sys.executable, "-m", "toolchain", "verify", str(bundle.path), "--board", board, *options],
        capture_output=True,
        text=True,
        timeout=900,  # it may have to compile the runtime
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def built(proto: onnx.ModelProto, name: str, folder: Path) -> Bundle:
    folder.mkdir()
    onnx.save(proto, folder / "net.onnx")
    model = load_model(str(folder / "net.onnx"), ModelOptions())
    return read_bundle(build(model, find_target(name), None, folder).bundle)


def flipped() -> onnx.ModelProto:
    """Return the network with the sign of one output channel of its last weights changed."""
    proto = network()
    (weights,) = (tensor for tensor in proto.graph.initializer if tensor.name == "fc.w")
    values = np.array(numpy_helper.to_array(weights))
    values[CHANNEL] *= -1
    weights.CopyFrom(numpy_helper.from_array(values, "fc.w"))
    return proto


def bundle_of(honest: Bundle, library: bytes, path: Path) -> Bundle:
    """Write a bundle as sound as any other, but with this library."""
    write_bundle(path, honest.manifest, library, honest.sample, honest.expected)
    return read_bundle(path)


def check_failed(ran: subprocess.CompletedProcess[str]) -> None:
    assert ran.returncode == 4
    assert "passed: false" in ran.stdout
    assert re.search(r"worst at \[0, \d+\]: [-\d.e]+ where [-\d.e]+ is expected", ran.stderr)


@pytest.mark.parametrize("where", ["x86_64", "rk3399"])
def test_one_channel_of_the_wrong_sign(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    board = "local" if where == "x86_64" else request.getfixturevalue("rk3399").name
    honest = built(network(), where, tmp_path / "honest")
    wrong = bundle_of(honest, built(flipped(), where, tmp_path / "wrong").library, tmp_path / "wrong.bundle")

    good = verified(honest, board, "--json")
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["passed"]
    assert json.loads(good.stdout)["machine"] == {"x86_64": "x86_64", "rk3399": "aarch64"}[where]

    check_failed(ran := verified(wrong, board))
    assert f"worst at [0, {CHANNEL}]" in ran.stderr  # where the change is
    failed = verified(wrong, board, "--json")
    assert failed.returncode == 4
    assert json.loads(failed.stdout)["outputs"][1]["worst_index"] == [0, CHANNEL]


def multiply_adds(library: bytes) -> Iterator[int]:
    """Yield where the opcodes of fused multiply-adds stand (VEX.66.0F38.W0)."""
    text = ELFFile(io.BytesIO(library)).get_section_by_name(".text")
    begin, end = text["sh_offset"], text["sh_offset"] + text["sh_size"]
    for at in range(begin, end - 4):
        escape, register, width, opcode = library[at : at + 4]
        if escape == 0xC4 and register & 0x1F == 2 and width & 0x83 == 1 and opcode in MULTIPLY_ADD:
            yield at + 3


def with_one_instruction_changed(honest: Bundle, board: Board, path: Path) -> Bundle:
    """Return a bundle whose library adds where it should subtract, and does not crash."""
    found = list(multiply_adds(honest.library))
    # From everywhere: the first may all be of functions whose sums are cut off or hardly count.
    for at in found[:: max(1, len(found) // CANDIDATES)]:
        library = bytearray(honest.library)
        library[at] ^= NEGATED
        wrong = bundle_of(honest, bytes(library), path)
        try:
            if not verify_bundle(wrong, OnBoard(board)).passed:
                return wrong
        except ToolchainError:  # the bytes were of something else, and it crashed
            continue
    raise AssertionError("no change of a multiply-add was noticed")


def test_one_changed_instruction(tmp_path: Path) -> None:
    honest = built(network(), "x86_64", tmp_path / "honest")
    wrong = with_one_instruction_changed(honest, find_board("local"), tmp_path / "wrong.bundle")
    changed = [a != b for a, b in zip(honest.library, wrong.library, strict=True)]
    assert sum(changed) == 1
    assert wrong.expected.keys() == honest.expected.keys()
    check_failed(verified(wrong, "local"))
