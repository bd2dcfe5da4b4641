"""No text of others reaches the terminal as it is: every command is fed with names a terminal would obey."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.running import Ran, Toolchain
from tests.cli.screen import screen
from tests.models.graphs import graph_of, tensor_info
from tests.records.samples import KEY, put
from toolchain.bundles import Manifest, ModelFacts, TargetFacts, Tensor, write_bundle
from toolchain.cli import output, terminal
from toolchain.cli.progress import step_progress
from toolchain.cli.root import root
from toolchain.cli.tuning.progress import tuning_progress
from toolchain.configuration.file import FILE_NAME
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.rpc.lab import LabStatus

# A colour, a title, a reading direction, C1's way to begin a sequence, a bell, rich's markup.
EVIL = "\x1b[31mevil\x1b]0;title\x07\u202e\x9b2J\x7f[red]"
SHOWN = r"\x1b[31mevil"
FILE = EVIL.replace("/", "") + "\udcff"  # a byte that is no text

# Each command with something foreign. A new command has to be written down here.
FOREIGN: dict[str, list[str]] = {
    "demo": ["{model}"],
    "model export": ["{model}", "-o", "{file}/x.onnx"],
    "model inspect": ["{model}"],
    "board accept": [EVIL],
    "board add": [EVIL, "--class", "rk3399"],
    "board emulate start": [EVIL],
    "board emulate stop": [EVIL],
    "board exec": [EVIL, "--", "true"],  # what the program prints: below
    "board logs": [EVIL],
    "board power": ["off", EVIL],
    "board probe": [EVIL],
    "board provision": [EVIL],
    "board remove": [EVIL],
    "board shell": [EVIL],
    "board show": ["b1"],
    "board repin": [EVIL],
    "board status": [EVIL],
    "lab release": [EVIL],
    "lab start": [EVIL],
    "lab status": [],
    "tasks": ["{model}", "--board", "local"],
    "tune": ["{model}", "--board", "local", "--dry-run"],
    "records best": [],
    "records list": [],
    "records export": ["{file}/x.jsonl"],
    "records import": ["{model}"],
    "records distill": ["--keep", EVIL],
    "records repair": [],
    "report": ["--run", EVIL],
    "build": ["{model}", "--board", "local", "-o", "out"],
    "run": ["{bundle}", "--board", "local", "--input", "x=x.npy", "-o", "{file}.npz"],
    "verify": ["{bundle}", "--board", "local"],
    "bench": ["{bundle}", "--board", "local"],
    "release keygen": ["-o", "{file}/x"],
    "release init": ["--key", EVIL],
    "release sign": ["{bundle}", "--key", EVIL, "--version", EVIL, "--expires", "2100-01-01"],
    "release verify": ["{bundle}", "--trust", EVIL],
    "release inspect": ["{bundle}"],
    "release export": ["{bundle}", "-o", "{file}"],
    "release push": [EVIL, "{bundle}"],
    "release pull": [EVIL, "-o", "{file}", "--trust", EVIL],
    "release trust show": [EVIL],
    "release trust add-key": [EVIL, EVIL, "--key", EVIL],
    "release trust remove-key": [EVIL, EVIL, "--key", EVIL],
    "release trust rotate": [EVIL, EVIL, EVIL, "--key", EVIL],
    "release trust sign": [EVIL, "--key", EVIL],
    "deploy": ["{bundle}", "--board", EVIL],
    "rollback": ["--board", EVIL],
    "fleet status": ["--group", EVIL],
    "runtime export": ["--board", EVIL, "-o", "{file}"],
    "runtime verify": ["--board", EVIL],
    "vta config": [EVIL],
    "vta disasm": ["{model}"],
    "vta lint": ["{file}"],
    "vta simulate": ["{file}"],
    "vta compile": ["--conv", EVIL, "--dump", "{file}"],
    "vta tasks": ["{model}"],
    "cache list": [],
    "cache prune": ["--dry-run", "--all"],
    "init": [],
    "completion": [EVIL],
}
SAYS_NOTHING_FOREIGN = {
    "doctor": "versions and settings, in a table as those of `cache list`",
    "model list": "the zoo is ours",
    "board list": "names and addresses have a pattern; the rest is in `board show`",
    "board emulate list": "names have a pattern",
    "lab stop": "a word",
    "image build": "images.toml is ours, and so is what they print",
    "ui": "an address; what the page gets is escaped, as tests/ui and tests/events show",
    "image list": "images.toml is ours",
    "image test": "images.toml is ours; what they print takes the way of `board exec`",
    "image shell": "the shell is the user's own",
    "image push": "images.toml is ours",
    "image pull": "images.toml is ours",
    "image bootstrap": "its name is ours",
}


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


def test_every_command_is_covered() -> None:
    assert set(commands(root)) == {*FOREIGN, *SAYS_NOTHING_FOREIGN}


def test_nothing_else_draws_on_the_terminal() -> None:
    """A console of rich's own would send what it is given; descriptors are not escaped."""
    package = Path(terminal.__file__).parents[1]
    ways = re.compile(r"rich\.console import .*Console|rich\.print|os\.write\([12],|__stdout__|__stderr__")
    found = {path.name for path in package.rglob("*.py") if ways.search(path.read_text())}
    assert found == {"terminal.py"}


def evil_model(path: Path) -> None:
    node = helper.make_node("Odd" + EVIL, ["x" + EVIL], ["y" + EVIL], "n" + EVIL, domain="d" + EVIL)
    sizes = [tensor_info(name + EVIL, [1, 2]) for name in "xy"]
    model = graph_of([node], sizes[:1], sizes[1:], {})
    model.opset_import.append(helper.make_opsetid("d" + EVIL, 1))
    model.producer_name = model.graph.name = model.doc_string = EVIL
    onnx.save(model, path)


def evil_bundle(path: Path) -> None:
    manifest = Manifest(
        tool_version=EVIL,
        model=ModelFacts(name=EVIL, source_name=EVIL, sha256="ab" * 32),
        target=TargetFacts(triple="x86_64-unknown-linux-gnu", mcpu=EVIL, definition={"kind": EVIL}),
        device="cpu",
        requires=(EVIL,),
        arch="x86_64",
        board_class="x86_64",
        emulated=False,
        board=EVIL,
        cluster=EVIL,
        threads=1,
        glibc="2.27",
        inputs=(Tensor(name=EVIL, shape=(1,), dtype="float32"),),
        outputs=(Tensor(name="y" + EVIL, shape=(1,), dtype="float32"),),
        tolerance=1e-3,
        tvm=EVIL,
        tvm_ffi=EVIL,
        layout=EVIL,
        dtype=EVIL,
    )
    one = np.ones(1, np.float32)
    write_bundle(path, manifest, b"\x7fELF", {EVIL: one}, {"y" + EVIL: one})


@pytest.fixture
def evil(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the files for commands; configuration, records, cache and lab are as bad."""
    key = b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
    quoted = json.dumps(EVIL.replace("\x7f", ""))
    (folder / FILE_NAME).write_text(
        f'[boards.b1]\nclass = "rk3399"\nhost = "127.0.0.1"\nport = 9\nroot = {quoted}\ngroups = [{quoted}]\n'
        f'host_key = "ssh-ed25519 {key}"\n'
    )
    evil_model(folder / f"{FILE}.onnx")
    evil_bundle(folder / f"{FILE}.bundle")
    np.save(folder / "x.npy", np.ones(1, np.float32))
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
    (folder / "cache" / "runtime" / FILE).mkdir(parents=True)
    (folder / "cache" / FILE).touch()
    with RecordStore(folder / "data" / "records.sqlite") as store:
        put(store, 1.0, key=replace(KEY, board_class=EVIL, cpu=EVIL))
        put(store, 2.0, digest="unreadable")
    with sqlite3.connect(folder / "data" / "records.sqlite") as db:
        db.execute("UPDATE records SET run_ms=? WHERE digest='unreadable'", (EVIL,))
    return {"model": f"{FILE}.onnx", "bundle": f"{FILE}.bundle", "file": str(folder / FILE)}


def evil_lab() -> LabStatus:
    lease = {"board": EVIL, "key": EVIL, "user": EVIL, "held_s": 1.0, "left_s": 1.0}
    keys = {EVIL: {"total": 1, "free": 1, "pending": 0}}
    waits = {"board": EVIL, "key": EVIL, "user": EVIL, "waited_s": 1.0}
    away = {EVIL: lab.BoardStatus(EVIL, "away", EVIL)}
    return LabStatus("127.0.0.1", 9, os.getpid(), away, keys, (lease,), (waits,))


def clean(ran: Ran) -> bool:
    said = ran.out + ran.err
    return all(character.isprintable() or character in "\n\t" for character in said)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("command", FOREIGN)
def test_foreign_text_is_shown_and_not_obeyed(
    command: str, evil: dict[str, str], invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "lab status":
        monkeypatch.setattr(lab, "status", evil_lab)
    if command.startswith("cache"):  # others would compile a runtime into it
        monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(Path("cache").absolute()))
    arguments = [argument.format(**evil) for argument in FOREIGN[command]]
    ran = invoke(*command.split(), *arguments)
    assert clean(ran), ran
    assert "this is a bug" not in ran.err
    if command != "init":
        assert SHOWN in ran.out + ran.err
    as_json = invoke(*command.split(), "--json", *arguments)
    assert as_json.out.isascii() and clean(as_json)
    json.loads(as_json.out, parse_constant=refuse)


def check_screen(said: str) -> None:
    assert SHOWN in said and "[red]" in said
    assert "\x1b[31m" not in said and "\x1b]0" not in said
    assert not set(said) & set("\x07\u202e\x9b\x7f")


def test_a_table_on_a_terminal() -> None:
    with screen() as shown:
        output.table(["NAME", EVIL], [(EVIL, EVIL)])
        check_screen(shown.shows())


def test_a_line_that_changes() -> None:
    with screen() as shown:
        with step_progress() as tell:
            tell(EVIL)
            tell(f"compiling 3/7 {EVIL}")
            output.note(EVIL)
        said = shown.shows()
    check_screen(said)
    assert "\x1b[?25l" in said  # rich's own sequences are sent


def test_a_bar() -> None:
    from toolchain.tuning.events import Notice, StepBegan

    with screen() as shown:
        with tuning_progress() as listener:
            listener(StepBegan(EVIL))
            listener(Notice(EVIL))
        check_screen(shown.shows())


def test_board_program_output_is_escaped(tmp_path: Path) -> None:
    with screen() as shown:
        terminal.bytes_for(sys.stdout).write(f"{EVIL}\r\nsecond line\n".encode() + b"\xff\n")
        said = shown.shows()
    check_screen(said)
    assert "second line\r\n\\xff" in said
    with (tmp_path / "file").open("w") as file:
        terminal.bytes_for(terminal.Escaping(file, None)).write(b"\x1b\xff")
    assert (tmp_path / "file").read_bytes() == b"\x1b\xff"  # elsewhere it is exact
