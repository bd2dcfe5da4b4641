"""Layers chained in one program, and the forms that programs have."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.vta.generated import BASE, PYNQ, alone, layer, lint, run
from toolchain.errors import ToolchainError, UsageError
from toolchain.vta.compiling.assemble import assemble
from toolchain.vta.compiling.blob import DESCRIPTION, HEADER, VERSION, blob_of, relocated
from toolchain.vta.compiling.estimate import legal_knobs
from toolchain.vta.isa import Load, Store, is_nop
from toolchain.vta.layers.layer import ConvShape
from toolchain.vta.layers.region import Region, RegionLayer, seeded_layer
from toolchain.vta.machine.simulator import Simulator


def shape(size: int, ic: int, oc: int, kernel: int, stride: int = 1) -> ConvShape:
    return ConvShape(1, size, size, ic, oc, kernel, kernel, kernel // 2, kernel // 2, stride, stride)


def blocks(widths: list[int], size: int, seed: int = 0) -> Region:
    """Return a region of residual blocks; where the width changes, rows and columns are halved."""
    layers: list[RegionLayer] = []

    def add(result: str, source: str, of: ConvShape, residual: str | None = None) -> str:
        values = seeded_layer(of, seed + len(layers), residual is not None)
        layers.append(RegionLayer(values, source, result, residual))
        return result

    value, before = "x", widths[0]
    for number, width in enumerate(widths):
        stride = 1 if width == before else 2
        inner = add(f"inner{number}", value, shape(size, before, width, 3, stride))
        shortcut = value if stride == 1 else add(f"beside{number}", value, shape(size, before, width, 1, 2))
        size = -(-size // stride)
        value = add(f"block{number}", inner, shape(size, width, width, 3), shortcut)
        before = width
    return Region(layers, ["x"], [value])


def test_residual_blocks_compile_to_one_program(simulator: Simulator) -> None:
    region = blocks([32, 32, 48], 14)
    ran = run(simulator, region)
    assert not lint(ran.program)
    assert np.unique(ran.values["block2"]).size > 100
    together = sum(value.bytes for value in ran.program.values.values())
    assert ran.program.sections["activations"].size < together * 0.7


@pytest.mark.slow
def test_the_region_of_resnet_18(simulator: Simulator) -> None:
    ran = run(simulator, blocks([64, 64, 128, 128, 256, 256, 512, 512], 56))
    assert not lint(ran.program)
    assert len(ran.program.knobs) == 19
    assert ran.outcome.milliseconds < 1.15 * 75.7
    assert ran.program.memory_bytes < 12 * 2**20


@st.composite
def networks(draw: st.DrawFn) -> Region:
    """Return layers that read any value before them, some added to another one, cut in any way."""
    size, width = draw(st.integers(3, 9)), draw(st.sampled_from((16, 24, 40)))
    layers: list[RegionLayer] = []
    names = ["x"]
    for number in range(draw(st.integers(2, 5))):
        of = shape(size, width, width, draw(st.sampled_from((1, 3))))
        residual = draw(st.sampled_from([None, *names]))
        values = layer(of, draw(st.integers(0, 999)), residual is not None, draw(st.sampled_from((0, -127))))
        knobs = draw(st.sampled_from(legal_knobs(of, PYNQ, residual is not None)))
        layers.append(RegionLayer(values, draw(st.sampled_from(names)), f"v{number}", residual, knobs))
        names.append(f"v{number}")
    layers[0] = replace(layers[0], source="x")
    return Region(layers, ["x"], [names[-1], *draw(st.sets(st.sampled_from(names[1:-1])))])


QUICK = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@QUICK
@given(region=networks())
def test_any_small_network(simulator: Simulator, region: Region) -> None:
    assert not lint(run(simulator, region).program)


@pytest.mark.slow
@settings(QUICK, max_examples=100)
@given(region=networks())
def test_many_small_networks(simulator: Simulator, region: Region) -> None:
    run(simulator, region)


def test_relocation_changes_every_address() -> None:
    program = assemble(alone(layer(shape(8, 16, 16, 3))), PYNQ)
    moved = relocated(program.instructions, 0x10000, PYNQ)
    for before, after in zip(program.instructions, moved, strict=True):
        if isinstance(before, Load | Store) and isinstance(after, Load | Store) and not is_nop(before):
            size = PYNQ.buffers[before.memory].element_bytes
            assert (after.dram_base - before.dram_base) * size == 0x10000
        else:
            assert before == after
    with pytest.raises(UsageError, match="multiple of 256"):
        relocated(program.instructions, 0x80, PYNQ)


def test_blob_contains_header_and_memory_image() -> None:
    program = assemble(alone(layer(shape(8, 20, 40, 3), residual=True)), PYNQ)
    blob = blob_of(program)
    magic, version, crc, isa_rev, *_, memory, image_at, begin, code_at, count, inputs, outputs = (
        HEADER.unpack_from(blob)
    )
    assert (magic, version, isa_rev, inputs, outputs) == (b"EVTA", VERSION, 2, 2, 1)
    assert crc == zlib.crc32(blob[12:])
    assert begin % 4096 == 0 and len(blob) - begin == memory - image_at
    image = bytes(image_at) + blob[begin:]
    assert image[code_at : code_at + 16 * count] == program.code() and image == bytes(program.memory())
    places = list(struct.iter_unpack(DESCRIPTION.format, blob[HEADER.size :][: 3 * DESCRIPTION.size]))
    assert [place[2:] for place in places] == [(1, 2, 8, 8, 1, 16), (1, 3, 8, 8, 1, 16), (1, 3, 8, 8, 1, 16)]
    assert blob == blob_of(assemble(alone(layer(shape(8, 20, 40, 3), residual=True)), PYNQ))
    zcu = replace(PYNQ, log_wgt_buff_size=17)
    other = blob_of(assemble(alone(layer(shape(8, 20, 40, 3), residual=True)), zcu))
    assert other[12:44] != blob[12:44]


@pytest.mark.slow
def test_oversized_region_names_the_remedy() -> None:
    wide = shape(1, 2048, 1024, 3)
    values = seeded_layer(wide, 0)
    two = Region([RegionLayer(values, "x", "y"), RegionLayer(values, "x", "z")], ["x"], ["y", "z"])
    with pytest.raises(ToolchainError, match=r"needs 3\d\.\d MiB") as refused:
        assemble(two, PYNQ)
    assert "--stop-pack" in refused.value.hint


def test_designs_of_several_rows_are_refused() -> None:
    with pytest.raises(UsageError, match="2 rows at once"):
        assemble(alone(layer(shape(8, 16, 16, 3))), replace(PYNQ, log_batch=1))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"source": "nothing"}, "nothing is used before"),
        ({"result": "x"}, "x is computed, but exists already"),
        ({"residual": "x"}, "left shifts and a residual"),
        ({"result": "z"}, "no layer has y"),
    ],
)
def test_inconsistent_layers_are_named(change: dict[str, str], reason: str) -> None:
    region = alone(layer(shape(8, 16, 16, 3)))
    wrong = replace(region, layers=[replace(region.layers[0], **change)])
    with pytest.raises(ToolchainError, match=reason):
        assemble(wrong, PYNQ)


def test_memory_contains_the_instructions() -> None:
    program = assemble(alone(layer(shape(8, 16, 16, 3))), PYNQ)
    section = program.sections["instructions"]
    assert program.memory(BASE)[section.offset : section.offset + section.size] == program.code(BASE)
