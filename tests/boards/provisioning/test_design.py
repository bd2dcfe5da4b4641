"""Designs for programmable logic: which are refused, and what is done on boards with FAKE device files."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.boards.provisioning.test_steps import READY
from toolchain.boards.provisioning.design import (
    LOAD,
    UNLOAD,
    Design,
    check_design,
    design_removal,
    design_steps,
    read_design,
)
from toolchain.boards.provisioning.steps import Put, RunCommand
from toolchain.errors import UsageError

NAME = "1x16_i8w8a32_15_15_18_17"
WORDS = bytes.fromhex("ffffffff aa995566 20000000 30022001")


def bit(words: bytes = WORDS) -> bytes:
    """Return a file as Vivado writes it."""
    fields = [("a", b"vta;HW_ID\0"), ("b", b"7z020clg400\0"), ("c", b"2020/12/01\0"), ("d", b"12:00:00\0")]
    header = b"\0\x09\x0f\xf0\x0f\xf0\x0f\xf0\x0f\xf0\0\0\x01"
    for letter, text in fields:
        header += letter.encode() + len(text).to_bytes(2, "big") + text
    return header + b"e" + len(words).to_bytes(4, "big") + words


def written(folder: Path, content: bytes, name: str = NAME, **beside: str) -> Path:
    file = folder / f"{name}.bit"
    file.write_bytes(content)
    said = {"hw_ver": "0.0.2", "sha256": hashlib.sha256(content).hexdigest()} | beside
    file.with_suffix(".json").write_text(json.dumps(said))
    return file


def read(file: Path) -> Design:
    return read_design(file, NAME, "0.0.2", 2)


def test_a_design_is_its_words(tmp_path: Path) -> None:
    design = read(written(tmp_path, bit()))
    assert design.content("xdevcfg") == bit()
    assert design.content("manager") == bytes.fromhex("ffffffff 665599aa 00000020 01200230")
    assert design.note.startswith(f"bitstream={NAME}\nisa_rev=2\nsha256=")


@pytest.mark.parametrize(
    ("content", "name", "beside", "words"),
    [
        (bit(), "1x16_i8w8a32_15_15_17_17", {}, f"the board's class has a VTA {NAME}"),
        (bit(), NAME, {"sha256": "0" * 64}, "its sha256 is"),
        (bit(), NAME, {"hw_ver": "0.0.1"}, "its HW_VER is 0.0.1"),
        (bit(), NAME, {"hw_ver": "new"}, "hw_ver"),
        (bit()[:-4], NAME, {}, "not a bitstream, or incomplete"),
        (b"", NAME, {}, "not a bitstream, or incomplete"),
        (bit(bytes(16)), NAME, {}, "not a bitstream, or incomplete"),
    ],
)
def test_refuses_bitstream_of_another_configuration(
    tmp_path: Path, content: bytes, name: str, beside: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError) as error:
        read(written(tmp_path, content, name, **beside))
    assert words in error.value.message and error.value.hint


def test_refuses_missing_bitstream(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read(tmp_path / f"{NAME}.bit")


def test_without_a_word_on_its_instructions_one_is_told_what_to_write(tmp_path: Path) -> None:
    file = written(tmp_path, bit())
    file.with_suffix(".json").unlink()
    with pytest.raises(UsageError) as error:
        read(file)
    assert error.value.hint is not None
    file.with_suffix(".json").write_text(error.value.hint.partition("write that file: ")[2])
    assert read(file).isa_rev == 2


def test_design_steps(tmp_path: Path) -> None:
    design = read(written(tmp_path, bit()))
    assert design_steps(replace(READY, fpga="manager|"), None) == []
    send, load = design_steps(replace(READY, fpga="manager|"), design)
    assert send.action == Put(design.content("manager"), f"fpga/{NAME}.bin") and not send.needs_root
    assert load.needs_root and "by fpga_manager" in load.title
    loaded = replace(READY, fpga="manager|" + design.note.replace("\n", ";"))
    assert design_steps(loaded, design) == []
    with pytest.raises(UsageError, match="no programmable logic that Linux can load"):
        check_design("box", READY, design)
    assert design_removal(READY) == []
    (step,) = design_removal(replace(READY, entries=("bin", "fpga")))
    assert step.needs_root and isinstance(step.action, RunCommand)


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = ["sh", "-c", script, "sh", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)


def fake_manager(root: Path, state: str) -> Path:
    fpga = root / "sys/class/fpga_manager/fpga0"
    fpga.mkdir(parents=True)
    for name, text in (("firmware", ""), ("flags", "1"), ("state", state)):
        (fpga / name).write_text(text)
    return fpga


def test_fpga_manager_is_told_of_it(tmp_path: Path) -> None:
    (tmp_path / "design.bin").write_bytes(b"design")
    fpga = fake_manager(tmp_path, "operating")
    done = run(LOAD, tmp_path, tmp_path / "design.bin", "edge-vta.bin", "bitstream=x\n")
    assert done.returncode == 0, done.stderr
    assert (fpga / "firmware").read_text() == "edge-vta.bin\n" and (fpga / "flags").read_text() == "0\n"
    assert (tmp_path / "lib/firmware/edge-vta.bin").read_bytes() == b"design"
    assert (tmp_path / "run/edge-rt/vta-design").read_text() == "bitstream=x\n"
    assert run(UNLOAD, tmp_path, "edge-vta.bin").returncode == 0
    assert not (tmp_path / "run/edge-rt").exists() and not list((tmp_path / "lib/firmware").iterdir())


def test_a_design_that_does_not_operate_leaves_no_note(tmp_path: Path) -> None:
    (tmp_path / "design.bin").write_bytes(b"design")
    fake_manager(tmp_path, "write error")
    (tmp_path / "run/edge-rt").mkdir(parents=True)
    (tmp_path / "run/edge-rt/vta-design").write_text("bitstream=before\n")
    done = run(LOAD, tmp_path, tmp_path / "design.bin", "edge-vta.bin", "bitstream=x\n")
    assert done.returncode == 1 and "not operating: write error" in done.stderr
    assert not (tmp_path / "run/edge-rt/vta-design").exists()


def test_older_kernels_take_the_file_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "design.bin").write_bytes(b"design")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/xdevcfg").write_bytes(b"")
    assert run(LOAD, tmp_path, tmp_path / "design.bin", "edge-vta.bin", "bitstream=x\n").returncode == 0
    assert (tmp_path / "dev/xdevcfg").read_bytes() == b"design"
    assert (tmp_path / "run/edge-rt/vta-design").read_text() == "bitstream=x\n"
