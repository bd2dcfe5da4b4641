"""What a manifest holds: facts that agree with each other, its members, and one text for equal facts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from toolchain.bundles import Manifest, Tensor
from toolchain.bundles.manifest import (
    SCHEMA_VERSION,
    EngineFacts,
    OutputParts,
    OutputTolerance,
    RuntimeNeeds,
)
from toolchain.bundles.read import migrated
from toolchain.models.options import MOST_PARTS


def test_refuses_inconsistent_manifest(manifest: Manifest) -> None:
    values = manifest.model_dump()
    for change in (
        {"arch": "x86_64"},
        {"device": "cpu", "runtime": {"devices": ["opencl"]}},
        {"model": values["model"] | {"softmax_outputs": ("other",)}},
        {"model": values["model"] | {"source_name": "/home/me/tiny.onnx"}},
        {"inputs": values["inputs"][:1] * 2},
        {"tolerance": float("nan")},
        {"unknown": 1},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            Manifest.model_validate(values | change)


def parts(output: str, axis: int, *ends: int) -> dict[str, Any]:
    return {"output": output, "axis": axis, "ends": ends}


@pytest.mark.parametrize(
    "wrong",
    [
        [parts("other", 0, 1, 2)],
        [parts("gpu_0/prob", 2, 1, 2)],
        [parts("gpu_0/prob", 1, 1, 2)],
        [parts("gpu_0/prob", 1, 4, 6)],
        [parts("gpu_0/prob", 1, 2, 2, 5)],
        [parts("gpu_0/prob", 1, 3, 2, 5)],
        [parts("gpu_0/prob", 1, 5)],
        [parts("gpu_0/prob", 1, 0, 5)],
        [parts("gpu_0/prob", 1, 2, 5)] * 2,
    ],
)
def test_parts_are_those_of_an_output(manifest: Manifest, wrong: list[dict[str, Any]]) -> None:
    values = manifest.model_dump()
    values["outputs"][0]["shape"] = [1, 5]
    accepted = Manifest.model_validate(values | {"parts": [parts("gpu_0/prob", 1, 2, 5)]})
    assert accepted.parts == (OutputParts(output="gpu_0/prob", axis=1, ends=(2, 5)),)
    with pytest.raises(ValueError, match="parts"):
        Manifest.model_validate(values | {"parts": wrong})


def test_parts_of_an_output_are_few(manifest: Manifest) -> None:
    values = manifest.model_dump()
    values["outputs"][0]["shape"] = [8, 9]
    grid = [parts("gpu_0/prob", 0, *range(1, 9)), parts("gpu_0/prob", 1, *range(1, 10))]
    with pytest.raises(ValueError, match=f"more than {MOST_PARTS}"):
        Manifest.model_validate(values | {"parts": grid})


def test_equal_facts_have_one_text_whatever_the_order_they_came_in(manifest: Manifest) -> None:
    text = manifest.to_json()
    assert text.endswith(b"\n") and text.isascii()
    values: dict[str, Any] = json.loads(text)
    again = Manifest.model_validate(dict(reversed(values.items())))
    assert again == manifest and again.to_json() == text
    assert list(values) == sorted(values)


def test_members_are_the_library_then_inputs_then_outputs(manifest: Manifest) -> None:
    assert manifest.members() == ["library.so", "sample/0.npy", "sample/1.npy", "expected/0.npy"]
    objects = manifest.model_copy(update={"format": "tar"})
    assert objects.members()[0] == objects.library_member == "library.tar"
    assert [(name, tensor.name) for name, tensor in manifest.tensor_members()] == [
        ("sample/0.npy", "gpu_0/data_0"),
        ("sample/1.npy", "n"),
        ("expected/0.npy", "gpu_0/prob"),
    ]


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("float16", (3, 5), 30),
        ("int64", (), 8),
        ("bool", (7,), 7),
        ("uint8", (0, 4), 0),
        ("float64", (2,), 16),
    ],
)
def test_the_size_of_a_tensor(dtype: str, shape: tuple[int, ...], size: int) -> None:
    assert Tensor(name="x", shape=shape, dtype=dtype).nbytes == size


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (EngineFacts, {"kind": "docker"}),
        (EngineFacts, {"kind": "host", "image": "sha256:1"}),
        (EngineFacts, {"kind": "host", "lock": "00"}),
        (OutputTolerance, {"output": "y", "step": 0.5, "number": 1, "reason": "why"}),
        (OutputTolerance, {"output": "y", "step": None, "number": 1, "values": 3, "reason": "why"}),
        (OutputTolerance, {"output": "y", "step": 0, "number": 1, "values": 3, "reason": "why"}),
    ],
)
def test_refuses_inconsistent_facts(kind: type[EngineFacts], facts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**facts)


def test_a_tolerance_is_for_an_output_that_there_is_and_once(manifest: Manifest) -> None:
    one = {"output": "gpu_0/prob", "step": 0.25, "number": 1, "values": 3, "reason": "rounding"}
    values = manifest.model_dump()
    accepted = Manifest.model_validate(values | {"tolerances": [one]})
    assert accepted.tolerances[0].text == "1 step of 0.25"
    assert OutputTolerance(**(one | {"number": 2})).text == "2 steps of 0.25"
    assert OutputTolerance(**(one | {"step": None, "values": None, "number": 0.001})).text == "0.001"
    for wrong in ([one, one], [one | {"output": "other"}]):
        with pytest.raises(ValueError, match="tolerances: not all of"):
            Manifest.model_validate(values | {"tolerances": wrong})


def test_an_android_bundle_names_no_c_library_and_any_other_does(manifest: Manifest) -> None:
    values = manifest.model_dump()
    target = values["target"] | {"triple": "aarch64-linux-android"}
    assert not manifest.android
    assert Manifest.model_validate(values | {"target": target, "glibc": None}).android
    for wrong in ({"target": target}, {"glibc": None}):
        with pytest.raises(ValueError, match="glibc is"):
            Manifest.model_validate(values | wrong)


def test_a_network_without_a_device_runs_on_the_cpu() -> None:
    assert RuntimeNeeds().device == "cpu"
    assert RuntimeNeeds(devices=("opencl", "vta")).device == "opencl"


def test_words_about_sample_and_reference_are_of_the_newest_version(manifest: Manifest) -> None:
    said = {"sample": "seeded, normal floats", "reference": "the file as it is given"}
    new = manifest.model_copy(update={"schema_version": SCHEMA_VERSION, **said})
    assert json.loads(new.to_json()) | said == json.loads(new.to_json())
    old = json.loads(new.model_copy(update={"schema_version": 5, "shapes": (), "parts": ()}).to_json())
    assert not said.keys() & old.keys()
    with pytest.raises(ValueError, match="reference, sample: no key of version 5"):
        migrated(old | said, 5)
