"""Dumps: as they were written they are read, and what is cut, foreign or hostile is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.vta.programs import END, good
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.turns import folder_turn
from toolchain.vta.design import SAMPLES
from toolchain.vta.dumps import dump as dumps
from toolchain.vta.dumps.dump import Dump, read_dump, write_dump


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_dump(tmp_path / "dump", replace(good().dump(), after=bytes(END)))
    return tmp_path / "dump"


def parts(dump: Dump) -> tuple[object, ...]:
    return (
        *(dump.config, dump.program, dump.before, dump.after),
        *dump.inputs,
        *dump.outputs,
        dump.phys_base,
    )


@pytest.mark.parametrize("after", [None, b"\1" * END])
@pytest.mark.parametrize("sample", ["pynq", "zcu104"])
def test_what_is_written_is_read(tmp_path: Path, sample: str, after: bytes | None) -> None:
    dump = replace(good().dump(), config=SAMPLES[sample], after=after)
    write_dump(tmp_path / "dump", dump)
    assert parts(read_dump(tmp_path / "dump")) == parts(dump)


def test_layout_json_is_the_documented_one(folder: Path) -> None:
    place = {"bytes": 128, "shape": [1, 1, 1, 8, 1, 16], "dtype": "int8"}
    assert json.loads((folder / "layout.json").read_text()) == {
        "insn_count": 13,
        "phys_base": 4096,
        "arena_bytes": END,
        "inputs": [{"offset": 0x1000, **place}],
        "outputs": [{"offset": 0x4000, **place}],
        "config": SAMPLES["pynq"].parameters(),
    }
    assert sorted(file.name for file in folder.iterdir()) == [
        "dram.bin",
        "expected.bin",
        "insn.bin",
        "layout.json",
    ]


def test_dump_replaces_an_earlier_one(folder: Path) -> None:
    dump = good().dump()
    write_dump(folder, dump)
    assert parts(read_dump(folder)) == parts(dump)
    assert not (folder / "expected.bin").exists()


def test_concurrent_writers_take_turns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "TURN_S", 0.1)
    before = parts(read_dump(folder))
    with (
        folder_turn(folder, 1, "writing"),
        pytest.raises(ToolchainError, match=r"another process has been writing a dump into \S+dump"),
    ):
        write_dump(folder, good().dump())
    assert parts(read_dump(folder)) == before


def test_default_configuration_of_a_dump_is_pynq(folder: Path) -> None:
    edit(lambda layout: layout.pop("config") and None)(folder)
    edit(lambda layout: layout.update(more=1))(folder)
    assert read_dump(folder).config == SAMPLES["pynq"]


def edit(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = folder / "layout.json"
        layout = json.loads(file.read_text())
        change(layout)
        file.write_text(json.dumps(layout))

    return apply


def setting(**values: object) -> Callable[[Path], None]:
    return edit(lambda layout: layout.update(values))


def cut(name: str, by: int = 1) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size - by)


def gone(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def pipe(folder: Path) -> None:
    (folder / "dram.bin").unlink()
    os.mkfifo(folder / "dram.bin")


PLACE = {"offset": 0, "bytes": 16, "shape": [16], "dtype": "int8"}


@pytest.mark.parametrize(
    ("spoil", "name", "says"),
    [
        (gone("insn.bin"), "insn.bin", "cannot be read: No such file"),
        (gone("dram.bin"), "dram.bin", "cannot be read: No such file"),
        (gone("layout.json"), "layout.json", "cannot be read: No such file"),
        (cut("insn.bin"), "insn.bin", "it has 207 bytes, but insn_count of layout.json means 208"),
        (cut("dram.bin"), "dram.bin", "it has 20479 bytes, but arena_bytes of layout.json means 20480"),
        (cut("expected.bin", END), "expected.bin", "it has 0 bytes, but arena_bytes"),
        (cut("layout.json", 3), "layout.json", "EOF while parsing"),
        (pipe, "dram.bin", "it is a pipe, not a plain file"),
        (lambda folder: os.truncate(folder / "dram.bin", 2**25 + 1), "dram.bin", "more than 33554432 bytes"),
        (lambda folder: os.truncate(folder / "dram.bin", 2**40), "dram.bin", "the rest is holes"),
        (lambda folder: os.truncate(folder / "layout.json", 2**21), "layout.json", "more than 1048576"),
        (lambda folder: (folder / "layout.json").write_text("[]"), "layout.json", "should be an object"),
        (lambda folder: (folder / "layout.json").write_text("[" * 9999), "layout.json", "recursion limit"),
        (lambda folder: (folder / "layout.json").write_bytes(b'"\xff"'), "layout.json", "invalid unicode"),
        (setting(insn_count=0), "layout.json", "insn_count: 0: Input should be greater than or equal to 1"),
        (setting(insn_count=12), "insn.bin", "it has 208 bytes, but insn_count of layout.json means 192"),
        (setting(insn_count=2**31), "layout.json", "insn_count: 2147483648: Input should be less than"),
        (setting(insn_count=13.0), "layout.json", "insn_count: 13.0: Input should be a valid integer"),
        (setting(arena_bytes=2**25 + 1), "layout.json", "arena_bytes: 33554433: Input should be less than"),
        (setting(phys_base=-1), "layout.json", "phys_base: -1: Input should be greater"),
        (setting(phys_base="\x1b[31m"), "layout.json", r"phys_base: '\x1b[31m': Input should be a valid"),
        (
            edit(lambda layout: layout.pop("arena_bytes") and None),
            "layout.json",
            "arena_bytes: Field required",
        ),
        (setting(inputs=[{**PLACE, "bytes": 15}]), "layout.json", "15 bytes are not (16,) of int8"),
        (setting(inputs=[{**PLACE, "dtype": "int64"}]), "layout.json", "inputs.0.dtype: 'int64'"),
        (setting(inputs=[{**PLACE, "shape": [0]}]), "layout.json", "inputs.0.shape.0: 0"),
        (
            setting(outputs=[{**PLACE, "offset": END}]),
            "layout.json",
            "outputs.0: bytes 20480 to 20496 are out",
        ),
        (setting(outputs=[PLACE] * 5000), "layout.json", "at most 4096 items"),
        (setting(config={"TARGET": "pynq"}), "layout.json", "HW_VER: is missing"),
        (setting(config={**SAMPLES["pynq"].parameters(), "A": 1}), "layout.json", "A: unknown key"),
        (setting(config=3), "layout.json", "config: 3: Input should be"),
    ],
)
def test_damaged_dump_names_the_file(
    folder: Path, spoil: Callable[[Path], None], name: str, says: str
) -> None:
    spoil(folder)
    with pytest.raises(UsageError) as raised:
        read_dump(folder)
    assert raised.value.message.startswith(str(folder / name))
    assert says in raised.value.message
    assert raised.value.message.isprintable() and raised.value.hint
