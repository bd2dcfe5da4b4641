"""Configurations: the published ones, what follows from them, and files that don't hold together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolchain.errors import UsageError
from toolchain.profiles import class_names, load_profile
from toolchain.vta.config_file import find_config, read_config
from toolchain.vta.design import SAMPLES, Sram

PYNQ = SAMPLES["pynq"].parameters()


def write(folder: Path, values: object) -> Path:
    file = folder / "vta_config.json"
    file.write_text(json.dumps(values))
    return file


def test_pynq_matches_the_specification() -> None:
    pynq = SAMPLES["pynq"]
    assert pynq.bitstream == "1x16_i8w8a32_15_15_18_17"
    assert (pynq.batch, pynq.block, pynq.isa_rev) == (1, 16, 2)
    assert {m.name: (b.element_bytes, b.depth, b.index_bits) for m, b in pynq.buffers.items()} == {
        "UOP": (4, 8192, 13),
        "INP": (16, 2048, 11),
        "WGT": (256, 1024, 10),
        "ACC": (64, 2048, 11),
        "OUT": (16, 2048, 11),
        "ACC_8BIT": (16, 2048, 11),
    }
    assert (pynq.cycles.mhz, pynq.cycles.bus_bytes, pynq.cycles.version) == (100, 8, 1)
    assert pynq.cycles.milliseconds(100_000) == 1.0


def test_the_published_configurations_differ_in_board_and_revision_alone() -> None:
    assert {name: config.isa_rev for name, config in SAMPLES.items()} == {
        "pynq": 2,
        "ultra96": 2,
        "zcu104": 1,
        "de10nano": 2,
        "simulator": 2,
    }
    assert len({replace(config, target="pynq", hw_ver="0.0.2") for config in SAMPLES.values()}) == 1
    assert SAMPLES["ultra96"].cycles.mhz == 333


@pytest.mark.parametrize("name", SAMPLES)
def test_published_configurations_survive_a_file(tmp_path: Path, name: str) -> None:
    assert find_config(name) is SAMPLES[name]
    assert find_config(str(write(tmp_path, SAMPLES[name].parameters()))) == SAMPLES[name]


def test_accepts_derived_keys_that_agree(tmp_path: Path) -> None:
    added = {"LOG_BLOCK_IN": 4, "LOG_BLOCK_OUT": 4, "LOG_OUT_WIDTH": 3, "LOG_OUT_BUFF_SIZE": 15}
    assert read_config(write(tmp_path, {**PYNQ, **added})) == SAMPLES["pynq"]


def test_a_smaller_design_has_other_widths_and_another_name(tmp_path: Path) -> None:
    values = {**PYNQ, "LOG_INP_BUFF_SIZE": 14, "LOG_ACC_BUFF_SIZE": 16, "LOG_WGT_BUFF_SIZE": 17}
    config = read_config(write(tmp_path, values))
    assert config.bitstream == "1x16_i8w8a32_15_14_17_16"
    assert config.buffers[Sram.ACC].index_bits == 10


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"LOG_BATCHES": 0}, "LOG_BATCHES: unknown key; the keys are: TARGET, HW_VER, LOG_INP_WIDTH"),
        ({"ONE": 0, "TWO": 0}, "ONE, TWO: unknown keys; the keys are: TARGET, HW_VER"),
        ({"parameters": PYNQ}, "keep only what is in `parameters`"),
        ({"LOG_BATCH": None}, "LOG_BATCH: null: it must be a whole number from 0 to 8"),
        ({"LOG_BLOCK": 4.0}, "LOG_BLOCK: 4.0: it must be a whole number"),
        ({"LOG_BLOCK": True}, "LOG_BLOCK: true: it must be a whole number"),
        ({"LOG_INP_BUFF_SIZE": 10**30}, "it must be a whole number from 0 to 24"),
        ({"LOG_INP_WIDTH": 2}, "LOG_INP_WIDTH: 2: it must be 3"),
        ({"LOG_ACC_WIDTH": 4}, "LOG_ACC_WIDTH: 4: it must be 5"),
        ({"HW_VER": "0.0.3"}, 'HW_VER: "0.0.3": it must be one of: "0.0.1", "0.0.2"'),
        ({"HW_VER": 2}, "HW_VER: 2: it must be one of"),
        ({"TARGET": ["pynq"]}, 'TARGET: ["pynq"]: it must be one of: "pynq", "ultra96"'),
        ({"LOG_OUT_WIDTH": 5}, "LOG_OUT_WIDTH: 5 contradicts LOG_INP_WIDTH, which makes it 3; leave LOG_OUT"),
        ({"LOG_BLOCK_IN": 5}, "LOG_BLOCK_IN: 5 contradicts LOG_BLOCK, which makes it 4"),
        ({"LOG_BLOCK_IN": "\x1b[31m"}, r'"\u001b[31m" contradicts LOG_BLOCK'),
        ({"LOG_WGT_BUFF_SIZE": 8}, "LOG_WGT_BUFF_SIZE: 8 is less than two elements of 256 bytes"),
        ({"LOG_INP_BUFF_SIZE": 14}, "LOG_INP_BUFF_SIZE: 14 makes 1024 elements"),
        ({"LOG_INP_BUFF_SIZE": 14}, "only where both are the same: LOG_ACC_BUFF_SIZE: 16"),
        ({"LOG_UOP_BUFF_SIZE": 16}, "the first word of GEMM would need 65 bits and has 64: make LOG_UOP"),
        (
            {"LOG_UOP_BUFF_SIZE": 10},
            "the first word of GEMM would take in a field of the second: make LOG_UOP",
        ),
        ({"LOG_WGT_BUFF_SIZE": 19}, "the second word of GEMM would need 66 bits"),
        ({"LOG_WGT_BUFF_SIZE": 19}, "make LOG_WGT_BUFF_SIZE smaller"),
    ],
)
def test_contradictions_name_key_and_file(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    file = write(tmp_path, {**PYNQ, **changes})
    with pytest.raises(UsageError) as raised:
        read_config(file)
    assert raised.value.message.startswith(f"{file}: ")
    assert says in raised.value.message
    assert raised.value.hint == f"edit {file}"


@pytest.mark.parametrize("key", PYNQ)
def test_missing_key_is_named_with_the_pynqs_value(tmp_path: Path, key: str) -> None:
    file = write(tmp_path, {name: value for name, value in PYNQ.items() if name != key})
    with pytest.raises(UsageError, match=f"{key}: is missing; a Pynq's is "):
        read_config(file)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "Expecting value"),
        (b"[1]", "it is not a JSON object"),
        (b'{"LOG_BATCH": 0, "LOG_BATCH": 1}', "LOG_BATCH is given twice"),
        (b"\xff\xfe", "can't decode byte"),
        (b"[" * 60_000, "recursion|Expecting value"),  # Python 3.14 reads it to its end
        (b" " * 70_000, "more than 65536 bytes"),
        (b'{"LOG_BLOCK": ' + b"9" * 6000 + b"}", "limit"),
    ],
)
def test_refuses_files_that_are_not_configurations(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "vta_config.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=says) as raised:
        read_config(file)
    assert str(file) in raised.value.message
    assert "toolchain vta config pynq --json" in raised.value.hint


def test_refuses_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nosuch\.json cannot be read.*No such file"):
        find_config(str(tmp_path / "nosuch.json"))
    with pytest.raises(UsageError, match=r"no VTA configuration 'pink'.*pynq, ultra96"):
        find_config("pink")
    with pytest.raises(UsageError, match="it is a folder"):
        find_config(f"{tmp_path}/")


def test_board_classes_name_known_configurations() -> None:
    named = {
        name: device.config
        for name in class_names()
        for device in load_profile(name).devices
        if device.kind == "vta"
    }
    assert named["pynq"] == "pynq"
    for config in named.values():
        find_config(config or "")
