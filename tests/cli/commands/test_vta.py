"""`toolchain vta`: configurations, text of programs, and whether they are portable."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from tests.cli.running import Toolchain
from tests.models.quantising.networks import Block, network
from tests.vta.programs import CONFIG, good
from toolchain.vta.dumps.dump import write_dump
from toolchain.vta.isa import encode_program


@pytest.fixture
def dump(folder: Path) -> Path:
    write_dump(folder / "dump", good().dump())
    return folder / "dump"


def test_configurations_are_listed_and_shown(invoke: Toolchain, folder: Path) -> None:
    listed = invoke("vta", "config", "--json").document
    assert [each["name"] for each in listed] == ["pynq", "ultra96", "zcu104", "de10nano", "simulator"]
    shown = invoke("vta", "config", "pynq", "--json").document
    assert shown["bitstream"] == "1x16_i8w8a32_15_15_18_17"
    assert shown["buffers"]["WGT"] == {
        "bytes": 262144,
        "element_bytes": 256,
        "depth": 1024,
        "index_bits": 10,
    }
    (folder / "mine.json").write_text(json.dumps(shown["parameters"]))
    assert invoke("vta", "config", "mine.json", "--json").document == shown
    told = invoke("vta", "config", "zcu104")
    assert told.code == 0 and "revision 1" in told.out and "fitted to no board" in told.out


def test_a_wrong_configuration_is_named(invoke: Toolchain, folder: Path) -> None:
    (folder / "mine.json").write_text('{"TARGET": "pynq", "LOG_BLOK": 4}')
    wrong = invoke("vta", "config", "mine.json")
    assert wrong.code == 2
    assert wrong.says("mine.json", "LOG_BLOK: unknown key", "LOG_BLOCK: is missing", "edit mine.json")
    assert invoke("vta", "config", "pink").says("'pink'", "pynq, ultra96")


def test_a_program_is_printed(invoke: Toolchain, dump: Path) -> None:
    told = invoke("vta", "disasm", dump)
    assert (
        told.out.splitlines()[4] == " 4  compute  GEMM uop 0..1 out1 in8 dst(0,1) src(0,1) wgt(0,0) pop_prev"
    )
    said = invoke("vta", "disasm", dump / "insn.bin", "--json").document
    assert said["isa_rev"] == 2 and len(said["instructions"]) == 13
    assert said["instructions"][12] == {"index": 12, "stage": "compute", "text": "FINISH"}


def test_a_program_of_revision_1_asks_for_it(invoke: Toolchain, folder: Path) -> None:
    old = replace(CONFIG, hw_ver="0.0.1")
    (folder / "old.bin").write_bytes(encode_program(good().instructions, old))
    wrong = invoke("vta", "disasm", "old.bin")
    assert wrong.code == 2 and wrong.says("instruction 8", "is no instruction of revision 2", "--isa-rev 1")
    assert "`toolchain vta disasm PATH --isa-rev 1`" in wrong.err, "lint and simulate have no such option"
    right = invoke("vta", "disasm", "old.bin", "--isa-rev", "1").out
    assert right == invoke("vta", "disasm", "old.bin", "--config", "zcu104").out
    assert "STORE OUT sram 0x0" in right
    (folder / "cut.bin").write_bytes(b"\3" * 20)
    assert invoke("vta", "disasm", "cut.bin").says("cut.bin: ", "this one has 20 bytes")


def test_a_portable_program_passes(invoke: Toolchain, dump: Path) -> None:
    told = invoke("vta", "lint", dump)
    assert (told.code, told.out) == (0, "13 instructions keep the rules of the portable subset\n")


def test_a_program_that_is_not_portable_ends_with_4(invoke: Toolchain, folder: Path) -> None:
    program = good()
    program.change(8, imm=1, src_factor_in=0)
    program.instructions[-1:] = []
    write_dump(folder / "bad", program.dump())
    told = invoke("vta", "lint", "bad")
    assert told.code == 4 and told.says("bad is not portable: 2 rules are broken", "vta disasm bad")
    assert told.out.startswith(
        "instruction 8 (ALU MAX imm 1 uop 0..1 out1 in8 dst(0,1) src(0,0)): immediate: "
    )
    assert "program: finish: there is no FINISH" in told.out
    said = invoke("vta", "lint", "bad", "--json")
    assert said.code == 4
    assert [each["rule"] for each in said.document["problems"]] == ["immediate", "finish"]


def test_refuses_folder_without_dump(invoke: Toolchain, folder: Path) -> None:
    (folder / "insn.bin").write_bytes(bytes(16))
    for verb in ("lint", "simulate"):
        wrong = invoke("vta", verb, folder)
        assert wrong.code == 2 and wrong.says(
            "layout.json cannot be read: No such file", "insn.bin, dram.bin"
        )
        wrong = invoke("vta", verb, folder / "insn.bin")
        assert wrong.code == 2 and wrong.says("cannot be read: Not a directory", "vta compile --dump DIR")
        assert "file of instructions" not in wrong.err, "this command takes folders alone"
    assert invoke("vta", "disasm", folder / "nosuch").says(
        "nosuch cannot be read", "or a file of instructions"
    )


@pytest.mark.usefixtures("files")
def test_floats_are_for_other_devices(invoke: Toolchain) -> None:
    wrong = invoke("tasks", "good.onnx", "--board", "pynq", "--device", "vta")
    assert wrong.code == 2 and wrong.says("computes in 8-bit integers, not in float32", "--dtype int8")


def test_the_tasks_of_a_network_are_upstreams_tuples(invoke: Toolchain, folder: Path) -> None:
    onnx.save(network((Block(20, stride=2, shortcut="projection"), Block(20))), folder / "net.onnx")
    listed = invoke("vta", "tasks", "net.onnx", "--json")
    assert listed.code == 0, listed.err
    assert listed.document == [
        {"shape": [1, 9, 9, 5, 20, 1, 1, 0, 0, 2, 2], "count": 1},
        {"shape": [1, 9, 9, 5, 20, 3, 3, 1, 1, 2, 2], "count": 1},
        {"shape": [1, 5, 5, 20, 20, 3, 3, 1, 1, 1, 1], "count": 3},
    ]
    assert "1,5,5,20,20,3,3,1,1,1,1  3" in invoke("vta", "tasks", "net.onnx").out


@pytest.mark.slow  # a whole network
def test_resnet_18_is_the_tutorials_ten(invoke: Toolchain) -> None:
    listed = invoke("vta", "tasks", "zoo:resnet-18", "--json").document
    assert [each["count"] for each in listed] == [4, 1, 1, 3, 1, 1, 3, 1, 1, 3]
    assert [",".join(map(str, each["shape"])) for each in listed] == [
        "1,56,56,64,64,3,3,1,1,1,1",
        "1,56,56,64,128,1,1,0,0,2,2",
        "1,56,56,64,128,3,3,1,1,2,2",
        "1,28,28,128,128,3,3,1,1,1,1",
        "1,28,28,128,256,1,1,0,0,2,2",
        "1,28,28,128,256,3,3,1,1,2,2",
        "1,14,14,256,256,3,3,1,1,1,1",
        "1,14,14,256,512,1,1,0,0,2,2",
        "1,14,14,256,512,3,3,1,1,2,2",
        "1,7,7,512,512,3,3,1,1,1,1",
    ]


def test_a_board_class_shows_its_bitstream(invoke: Toolchain) -> None:
    shown = invoke("board", "show", "pynq", "--json").document["devices"]
    assert shown == [
        {"kind": "cpu"},
        {"kind": "vta", "config": "pynq", "bitstream": "1x16_i8w8a32_15_15_18_17", "isa_rev": 2},
    ]


def test_a_board_class_with_an_unknown_configuration_says_so(invoke: Toolchain, folder: Path) -> None:
    ours = folder / "boards" / "mine" / "board.toml"
    ours.parent.mkdir(parents=True)
    shipped = Path(__file__).parents[3] / "boards" / "pynq" / "board.toml"
    ours.write_text(shipped.read_text().replace('config = "pynq"', 'config = "pink"'))
    (folder / "toolchain.toml").write_text("")
    wrong = invoke("board", "show", "mine")
    assert wrong.code == 2 and wrong.says("no VTA configuration 'pink'", "pynq, ultra96")


CONV = ("--conv", "1,14,14,20,40,3,3,1,1,2,2")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "what is to be compiled?"),
        ((*CONV, "--model", "net.onnx"), "--conv and --model exclude each other"),
    ],
)
def test_either_a_convolution_or_a_network_is_compiled(
    invoke: Toolchain, given: tuple[str, ...], says: str
) -> None:
    wrong = invoke("vta", "compile", *given, "--dump", "new")
    assert wrong.code == 2 and wrong.says(says, "hint: ")


def test_a_convolution_is_compiled(invoke: Toolchain, folder: Path) -> None:
    told = invoke("vta", "compile", *CONV, "--dump", "new/dump")
    assert told.code == 0 and "an estimate, not measured" in told.out
    assert sorted(file.name for file in (folder / "new" / "dump").iterdir()) == [
        "dram.bin",
        "expected.bin",
        "insn.bin",
        "layout.json",
    ]
    assert invoke("vta", "lint", "new/dump").code == 0
    said = invoke("vta", "compile", *CONV, "--dump", "again", "--json").document
    layout = json.loads((folder / "again" / "layout.json").read_text())
    assert {key: said[key] for key in layout} == layout and layout["phys_base"] == 4096
    assert [place["shape"] for place in layout["inputs"]] == [[1, 2, 14, 14, 1, 16]]
    assert [place["shape"] for place in layout["outputs"]] == [[1, 3, 7, 7, 1, 16]]
    for name in ("insn.bin", "dram.bin", "expected.bin"):
        assert (folder / "again" / name).read_bytes() == (folder / "new" / "dump" / name).read_bytes()
    knobs = ",".join(f"{name}={value}" for name, value in said["knobs"].items())
    invoke("vta", "compile", *CONV, "--dump", "third", "--knobs", knobs, "--seed", "7")
    assert (folder / "third" / "insn.bin").read_bytes() == (folder / "again" / "insn.bin").read_bytes()
    assert (folder / "third" / "dram.bin").read_bytes() != (folder / "again" / "dram.bin").read_bytes()


def test_a_convolution_with_a_residual_for_another_design(invoke: Toolchain, folder: Path) -> None:
    said = invoke(
        "vta", "compile", *CONV, "--residual", "--config", "zcu104", "--dump", folder / "old", "--json"
    ).document
    assert len(said["inputs"]) == 2 and said["config"]["HW_VER"] == "0.0.1"
    assert invoke("vta", "lint", "old").code == 0
    judged = invoke("vta", "simulate", "--strict", "old")
    assert judged.code == 0 and "the memory equals expected.bin" in judged.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--conv", "1,14,14"), ("'1,14,14' is not a shape", "BATCH,H,W,IC,OC")),
        (("--conv", "8,14,14,20,40,3,3,1,1,2,2"), ("batch 8", "make the batch 1")),
        ((*CONV, "--knobs", "tile_h=2"), ("'tile_h=2'", "it lacks tile_w", "such as")),
        (
            (*CONV, "--knobs", "tile_h=2,tile_w=7,tile_ci=1,tile_co=1"),
            ("tile_h=2 does not divide the 7 rows",),
        ),
        ((*CONV, "--config", "pink"), ("'pink'", "pynq, ultra96")),
    ],
)
def test_refuses_uncompilable_convolution(
    invoke: Toolchain, folder: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    wrong = invoke("vta", "compile", *options, "--dump", "dump")
    assert wrong.code == 2 and wrong.says(*words)
    assert not (folder / "dump").exists()


def test_what_is_too_large_is_told_before_its_weights_are_drawn(invoke: Toolchain, folder: Path) -> None:
    tracemalloc.start()
    wrong = invoke("vta", "compile", "--conv", "1,8,8,65535,65535,1,1,0,0,1,1", "--dump", "dump")
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert wrong.code == 1 and wrong.says("needs 4104.0 MiB", "at most 32 MiB", "must run on the CPU")
    assert held < 2**25 and not (folder / "dump").exists()


@pytest.mark.parametrize("timeout", ["nan", "inf", "1e12", "0"])
def test_refuses_impossible_timeout(invoke: Toolchain, dump: Path, timeout: str) -> None:
    assert invoke("vta", "simulate", dump, "--timeout", timeout).code == 2


def test_a_dump_needs_a_folder(invoke: Toolchain, folder: Path) -> None:
    (folder / "file").write_text("")
    assert invoke("vta", "compile", *CONV, "--dump", "file").code == 2
    assert (folder / "file").read_text() == ""


@pytest.mark.slow
def test_a_networks_regions_are_compiled(invoke: Toolchain, folder: Path) -> None:
    blocks = (Block(20, stride=2, shortcut="projection", pool=True), Block(20))
    onnx.save(network(blocks), folder / "net.onnx")
    one = invoke("vta", "compile", "--model", "net.onnx", "--dump", "one", "--json")
    assert one.code == 0, one.err
    assert [each["layers"] for each in one.document] == [2], "behind the pool"
    assert invoke("vta", "lint", "one").code == 0
    assert invoke("vta", "simulate", "one", "--strict").code == 0
    typed = ("vta", "compile", "--model", "net.onnx", "--start-pack", "relu", "--dump", "two")
    two = invoke(*typed, "--json")
    assert [Path(each["folder"]).name for each in two.document] == ["region-0", "region-1"]
    for each in two.document:
        assert invoke("vta", "simulate", each["folder"], "--strict").code == 0
    assert (
        "region-1"
        in invoke(*["vta", "compile", "--model", "net.onnx", "--start-pack", "relu", "--dump", "two"]).out
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([], "one of --conv"),
        (["--conv", "1,8,8,16,16,3,3,1,1,1,1", "--model", "net.onnx"], "--conv and --model"),
        (["--model", "net.onnx", "--residual"], "--residual: of one convolution"),
        (["--model", "net.onnx", "--knobs", "tile_h=1"], "--knobs: of one convolution"),
        (["--model", "none.onnx"], "none.onnx"),
    ],
)
def test_refuses_uncompilable_network(invoke: Toolchain, typed: list[str], said: str) -> None:
    wrong = invoke("vta", "compile", "--dump", "here", *typed)
    assert wrong.code == 2 and said in wrong.err
