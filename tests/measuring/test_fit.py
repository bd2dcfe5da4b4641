"""Whether a bundle can run on a board, by what both say of themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.lying.liar import DETAILS, FEATURE, tiny_bundle
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import DevicesThere, EdgeRtInfo
from toolchain.boards.inventory.lookup import find_board
from toolchain.bundles import Manifest, RuntimeNeeds, read_bundle
from toolchain.devices.facts import OpenclFacts
from toolchain.errors import UsageError
from toolchain.measuring.device import chosen_device
from toolchain.measuring.fit import check_device, check_facts

CPU = DevicesThere(kind="cpu", names=("x86",), problem=None)
MALI = DevicesThere(kind="opencl", names=("Mali-T860",), problem=None)
NO_DRIVER = DevicesThere(kind="opencl", names=(), problem="no libOpenCL.so.1")


def facts(*devices: DevicesThere) -> EdgeRtInfo:
    return EdgeRtInfo(
        version="1",
        fingerprint="00",
        machine="x86_64",
        glibc="9.9",
        cpu_features=(FEATURE,),
        devices=devices,
        logical_cpus=4,
        governor=None,
        temperature_c=None,
    )


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return read_bundle(tiny_bundle(tmp_path / "tiny.bundle")).manifest


@pytest.fixture
def board() -> Board:
    return find_board("local")


def needing(manifest: Manifest, device: str, *kinds: str) -> Manifest:
    return manifest.model_copy(update={"device": device, "runtime": RuntimeNeeds(devices=kinds)})


def test_accepts_board_with_required_features(manifest: Manifest, board: Board) -> None:
    check_facts(manifest, board, facts(CPU, NO_DRIVER))
    check_facts(needing(manifest, "opencl:mali-t860", "opencl"), board, facts(CPU, MALI))


def test_float16_is_refused_where_the_driver_lacks_it(manifest: Manifest, board: Board) -> None:
    wants = needing(manifest, "opencl", "opencl").model_copy(update={"dtype": "float16"})
    for half in (True, False):
        card = OpenclFacts.model_validate_json(json.dumps({**DETAILS, "half": half}))
        there = facts(CPU, DevicesThere(kind="opencl", names=("card",), problem=None, details=(card,)))
        assert check_device(needing(manifest, "opencl", "opencl"), board, there, 0) == []
        if half:
            assert check_device(wants, board, there, 0) == []
            continue
        with pytest.raises(UsageError) as caught:
            check_device(wants, board, there, 0)
        assert "card of board local does not compute in it" in str(caught.value)
        assert "lacks cl_khr_fp16" in str(caught.value) and "--dtype float32" in str(caught.value.hint)


def test_a_device_that_edge_rt_does_not_know_may_need_nothing_of_it(manifest: Manifest, board: Board) -> None:
    check_facts(needing(manifest, "toy:3"), board, facts(CPU))


def test_refuses_missing_cpu_feature(manifest: Manifest, board: Board) -> None:
    other = manifest.model_copy(update={"requires": (FEATURE, "sve9")})
    with pytest.raises(UsageError, match="needs the CPU features sve9, which board local lacks"):
        check_facts(other, board, facts(CPU))


def test_warns_if_opencl_device_is_no_gpu(manifest: Manifest, board: Board) -> None:
    wants = needing(manifest, "opencl:card", "opencl")
    for kind, warned in (("gpu", False), ("cpu", True), ("accelerator", True)):
        there = DevicesThere(
            kind="opencl",
            names=("card",),
            problem=None,
            details=(OpenclFacts.model_validate_json(json.dumps({**DETAILS, "type": kind})),),
        )
        warnings = check_device(wants, board, facts(CPU, there), 0)
        assert bool(warnings) == warned, kind
        assert not warned or warnings[0].startswith(f"card of local is no GPU ({kind}, its platform)")
        assert check_device(manifest, board, facts(CPU, there), 0) == [], "it computes on the CPU"
        other = check_device(needing(manifest, "opencl:mali-t860", "opencl"), board, facts(CPU, there), 0)
        assert other[-1].startswith("built for opencl:mali-t860 but runs on opencl:card: a build for ")


TWO = DevicesThere(kind="opencl", names=("NVIDIA T4", "NVIDIA H100 PCIe"), problem=None)
SAME = DevicesThere(kind="opencl", names=("NVIDIA T4", "NVIDIA T4"), problem=None)
SIMULATED = DevicesThere(kind="vta", names=("pynq", "sim"), problem=None)


@pytest.mark.parametrize(
    ("there", "built_for", "wanted", "word"),
    [
        (TWO, "opencl", None, "opencl"),
        (TWO, "opencl:nvidia-t4", None, "opencl"),
        (TWO, "opencl:nvidia-h100-pcie", None, "opencl:1"),
        (TWO, "opencl:mali-t860", None, "opencl"),
        (TWO, "opencl:nvidia-h100-pcie", "opencl", "opencl"),
        (TWO, "opencl", "opencl:0", "opencl"),
        (TWO, "opencl", "opencl:1", "opencl:1"),
        (TWO, "opencl", "opencl:NVIDIA H100 PCIe", "opencl:NVIDIA H100 PCIe"),
        (TWO, "opencl", "opencl:nvidia-h100-pcie", "opencl:1"),
        (SAME, "opencl:nvidia-t4", None, "opencl"),
        (SAME, "opencl:nvidia-t4", "opencl:1", "opencl:1"),
        (SIMULATED, "vta", None, "vta:pynq"),
        (SIMULATED, "vta", "vta:sim", "vta:sim"),
        (SIMULATED, "vta:sim", None, "vta:sim"),
        (SIMULATED, "vta", "vta:0", "vta:pynq"),
    ],
)
def test_chooses_one_of_several_devices(
    manifest: Manifest, board: Board, there: DevicesThere, built_for: str, wanted: str | None, word: str
) -> None:
    wants = needing(manifest, built_for, there.kind)
    assert chosen_device(wants, board, facts(CPU, there), wanted).word == word


@pytest.mark.parametrize(
    ("there", "wanted", "known"),
    [
        (TWO, "opencl:2", "it has: opencl (NVIDIA T4), opencl:1 (NVIDIA H100 PCIe)"),
        (SIMULATED, "vta:1", "it has: vta:pynq, vta:sim"),
    ],
)
def test_refuses_absent_device_and_lists_present_ones(
    manifest: Manifest, board: Board, there: DevicesThere, wanted: str, known: str
) -> None:
    with pytest.raises(UsageError, match=f"--device {wanted}: board local has no such device") as caught:
        chosen_device(needing(manifest, there.kind, there.kind), board, facts(CPU, there), wanted)
    assert caught.value.hint == known


def test_the_device_that_computes_is_the_one_that_is_checked(manifest: Manifest, board: Board) -> None:
    slow, fast = (
        OpenclFacts.model_validate_json(json.dumps({**DETAILS, "name": name, "half": half}))
        for name, half in (("T4", False), ("H100", True))
    )
    there = facts(CPU, DevicesThere(kind="opencl", names=("T4", "H100"), problem=None, details=(slow, fast)))
    wants = needing(manifest, "opencl:h100", "opencl").model_copy(update={"dtype": "float16"})
    assert check_device(wants, board, there, 1) == []
    with pytest.raises(UsageError, match="T4 of board local does not compute in it"):
        check_device(wants, board, there, 0)


@pytest.mark.parametrize(
    ("there", "why"),
    [((CPU, NO_DRIVER), "no libOpenCL.so.1"), ((CPU,), "its edge-rt knows no such kind")],
)
def test_error_names_missing_device(
    manifest: Manifest, board: Board, there: tuple[DevicesThere, ...], why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_facts(needing(manifest, "opencl:mali-t860", "cpu", "opencl"), board, facts(*there))
    assert caught.value.message == (
        "bundle for another board: built for opencl:mali-t860, it needs a device of kind opencl, "
        f"but board local has none: {why}"
    )
    assert "toolchain build tiny.onnx --board local" in str(caught.value.hint)
