"""The driver of the Pynq, against FAKE registers and FAKE memory: nothing of it has run on silicon."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.sanitized import OPTIONS, compiler
from tests.vta.compiled import drivers
from tests.vta.regions import case
from toolchain.vta.compiling.blob import HEADER

pytestmark = pytest.mark.slow  # it is compiled

# Permissions of files hold for root, too.
AS_A_USER = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
DRAM, MIB = 0x3000_0000, 2**20


@pytest.fixture(scope="module")
def program() -> Path:
    """Return the drivers with sanitizers."""
    return drivers()


class Board:
    """Fake files of a Zynq with a design."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder, self.program = folder, program
        (folder / "compatible").write_bytes(b"digilent,zynq-pynqz1\0xlnx,zynq-7000\0")
        self.design("1x16_i8w8a32_15_15_18_17", 2)
        with (folder / "mem").open("wb") as file:  # sparse
            file.truncate(0x43C0_4000)
        (folder / "dev").mkdir()
        self.dram = folder / "dev" / "udmabuf0"
        self.dram.write_bytes(b"\xa5" * MIB)
        about = folder / "class" / "u-dma-buf" / "udmabuf0"
        about.mkdir(parents=True)
        (about / "phys_addr").write_text(f"{DRAM:#010x}\n")
        (about / "size").write_text(f"{MIB}\n")

    def design(self, bitstream: str, isa_rev: int) -> None:
        (self.folder / "vta-design").write_text(f"bitstream={bitstream}\nisa_rev={isa_rev}\n")

    def without_udma(self) -> None:
        (self.folder / "class" / "u-dma-buf" / "udmabuf0" / "size").unlink()

    def __call__(
        self, verb: str, *words: object, data: bytes = b"", code: int = 0, as_a_user: bool = False
    ) -> list[str]:
        bound = AS_A_USER if as_a_user and os.geteuid() == 0 else []
        done = subprocess.run(
            [*bound, self.program, verb, *map(str, words)],
            input=data,
            capture_output=True,
            timeout=120,
            env=OPTIONS | {"FAKE_DRAM": str(self.dram)},
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stdout.decode().splitlines()

    def run(
        self, verb: str, blob: bytes, x: np.ndarray, runs: int = 1, code: int = 0
    ) -> tuple[list[str], bytes]:
        (self.folder / "program").write_bytes(blob)
        (self.folder / "in").write_bytes(x.tobytes())
        out = self.folder / "out"
        out.write_bytes(b"")
        lines = self(verb, self.folder, self.folder / "program", self.folder / "in", out, runs, code=code)
        return lines, out.read_bytes()


@pytest.fixture
def board(tmp_path: Path, program: Path) -> Board:
    return Board(tmp_path, program)


def test_run_uses_the_public_drivers_register_sequence(board: Board) -> None:
    expected = case()
    lines, out = board.run("run", expected.blob, expected.x)
    numbers = HEADER.unpack_from(expected.blob)
    at, count = numbers[23], numbers[24]
    assert lines == [
        "take",
        f"write 43c00010 {count:x}",
        f"write 43c00018 {DRAM + at:x}",
        "write 43c01010 0",
        "write 43c01018 0",
        "write 43c02020 0",
        "write 43c02028 0",
        "write 43c03010 0",
        "write 43c00000 1",
        "write 43c01000 81",
        "write 43c02000 81",
        "write 43c03000 81",
        *["read 43c02018"] * 3,
        "release",
    ]
    assert out == expected.y.tobytes()


@pytest.mark.parametrize("isa_rev", [1, 2])
def test_program_is_copied_once_for_several_runs(board: Board, isa_rev: int) -> None:
    board.design("1x16_i8w8a32_15_15_18_17", isa_rev)
    expected = case(3, isa_rev)
    lines, out = board.run("run", expected.blob, expected.x, runs=3)
    assert (lines.count("take"), out) == (3, expected.y.tobytes())


def test_measurement_times_the_runs_alone(board: Board) -> None:
    (board.folder / "program").write_bytes(case().blob)
    for number, repeat, least_ms in ((3, 2, 0), (1, 1, 40)):
        lines = board("clock", board.folder, board.folder / "program", number, repeat, least_ms)
        times = [float(line.removeprefix("ms ")) for line in lines if line.startswith("ms ")]
        runs = lines.count("take")
        assert len(times) == repeat and all(ms > 0 for ms in times)
        assert runs >= number * repeat and (runs == number * repeat or least_ms)
        assert sum(times) * runs / repeat >= least_ms, "it went on until enough time had passed"
    assert board("clock", board.folder, board.folder / "program", 1, 0, 0) == [], "not asked, not run"


def test_memory_from_the_vendors_library(board: Board) -> None:
    board.without_udma()
    command = [compiler(), "-x", "c", "-shared", "-fPIC", Path(__file__).with_name("fake_cma.c")]
    subprocess.run([*command, "-o", board.folder / "libcma.so"], check=True)
    assert board("problem", board.folder) == [""]
    expected = case()
    assert board.run("run", expected.blob, expected.x)[1] == expected.y.tobytes()
    board.dram.write_bytes(bytes(4096))
    (refused,), _ = board.run("run", expected.blob, expected.x, code=3)
    assert f"libcma.so has no {HEADER.unpack_from(expected.blob)[20]} bytes at one place" in refused
    assert "start Linux with more: cma=128M" in refused


def test_an_accelerator_that_never_finishes_is_an_error(board: Board) -> None:
    expected = case()
    lines, _ = board.run("hang", expected.blob, expected.x, runs=2)
    first, second = (line for line in lines if line.startswith("refused"))
    assert "did not finish within" in first and "toolchain board provision BOARD --bitstream FILE" in first
    assert "has not finished an earlier program" in second
    assert lines[lines.index(first) - 5 : lines.index(first)] == [
        *(f"write 43c0{block}000 0" for block in range(4)),
        "release",
    ]


@pytest.mark.parametrize(
    ("bitstream", "isa_rev"), [("1x16_i8w8a32_15_15_18_17", 1), ("1x16_i8w8a32_15_15_17_17", 2)]
)
def test_a_program_for_another_design_is_refused(board: Board, bitstream: str, isa_rev: int) -> None:
    board.design(bitstream, isa_rev)
    expected = case()
    lines, _ = board.run("run", expected.blob, expected.x, code=3)
    (line,) = lines
    assert line.startswith("design: the program is for the design 1x16_i8w8a32_15_15_18_17 with ")
    assert f"loaded is {bitstream} with revision {isa_rev}" in line


def test_memory_is_exhausted_and_given_back(board: Board) -> None:
    expected = case()
    (board.folder / "program").write_bytes(expected.blob)
    count, words, again = board("exhaust", board.folder, board.folder / "program")
    needs = HEADER.unpack_from(expected.blob)[20]
    assert int(count) == MIB // needs and again == "again"
    assert f"contiguous memory is exhausted: the program needs {needs} bytes" in words
    assert "modprobe u-dma-buf udmabuf0=" in words


def test_missing_hardware_is_named(board: Board) -> None:
    def problem() -> str:
        return board("problem", board.folder)[0]

    assert problem() == ""
    board.without_udma()
    assert "no device of u-dma-buf" in problem() and "no libcma.so" in problem()
    (board.folder / "mem").unlink()
    assert "run edge-rt as root" in problem()
    (board.folder / "vta-design").write_text("bitstream=\n")
    assert "does not say which design" in problem()
    (board.folder / "vta-design").unlink()
    assert "no design of a VTA is loaded" in problem() and "--bitstream FILE" in problem()
    (board.folder / "compatible").write_bytes(b"rockchip,rk3399\0")
    assert "no Zynq-7000" in problem()


def test_dev_mem_is_not_permitted(board: Board) -> None:
    (board.folder / "mem").chmod(0)
    (message,) = board("problem", board.folder, as_a_user=True)
    assert message.endswith("/mem may not be opened (Permission denied): run edge-rt as root")
    (refused,) = board("registers", board.folder, code=3, as_a_user=True)
    assert refused.startswith("driver: ") and "Permission denied; run edge-rt as root" in refused


def test_kernel_that_refuses_to_map_registers(board: Board) -> None:
    (board.folder / "mem").unlink()
    (board.folder / "mem").symlink_to("/dev/null")  # opens, and cannot be mapped
    (refused,) = board("registers", board.folder, code=3)
    assert "registers cannot be mapped" in refused and "iomem=relaxed" in refused


def test_register_address_comes_from_the_design(board: Board) -> None:
    with (board.folder / "mem").open("r+b") as file:
        file.seek(0x43C0_3010)
        file.write(struct.pack("<I", 0xABCD))
    assert board("registers", board.folder) == ["abcd"]
    with (board.folder / "mem").open("rb") as file:
        file.seek(0x43C0_2018)
        assert file.read(4) == struct.pack("<I", 0x12345678)
