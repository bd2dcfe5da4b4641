"""Bundles of earlier versions: read as today's, or refused in the right words."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundles.test_refusals import changing, rebuilt, refusal
from toolchain.boards.inventory.lookup import find_board
from toolchain.bundles import read_bundle, write_bundle
from toolchain.bundles.manifest import ONE_SHAPE, SCHEMA_VERSION
from toolchain.errors import CheckError, UsageError
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.verify import verify_bundle

FIRST = Path(__file__).parents[1] / "data" / "bundles" / "version-1.bundle"
"""Written by a toolchain of that version; see tools/make_bundle_sample.py."""


def written(bundle: Path) -> dict[str, object]:
    with tarfile.open(bundle) as archive:
        return dict(json.loads(archive.extractfile("manifest.json").read()))


def test_the_first_version_says_the_same_today() -> None:
    before, found = written(FIRST), read_bundle(FIRST)
    assert before.pop("schema_version") == 1
    values = json.loads(found.manifest.to_json())
    assert values.pop("schema_version") == ONE_SHAPE
    assert values.pop("device") == "cpu"
    assert values.pop("runtime") == {"devices": [], "functions": []}
    assert values.pop("quantising") is None
    assert values.pop("tolerances") == []
    assert values.pop("compilers") == ""
    assert values.pop("rates") == {"of": "class", "cores": None}
    told = [(task.pop("flops"), task.pop("functions"), task.pop("products")) for task in values["tasks"]]
    assert told == [(0, [], None)] * 4
    assert values == before
    assert found.manifest.runtime.device == "cpu"
    assert found.library.startswith(b"\x7fELF") and list(found.expected) == ["logits,1", "prob"]


def test_the_second_version_had_no_integers(tmp_path: Path) -> None:
    found = read_bundle(FIRST)
    write_bundle(tmp_path / "new", found.manifest, found.library, found.sample, found.expected)

    def of_2(values: dict[str, object]) -> bytes:
        before = {
            key: value for key, value in values.items() if key not in ("quantising", "tolerances", "rates")
        }
        return json.dumps(before | {"schema_version": 2}, sort_keys=True, indent=2).encode() + b"\n"

    (tmp_path / "second").write_bytes(rebuilt(tmp_path / "new", manifest=of_2))
    assert read_bundle(tmp_path / "second").manifest == found.manifest


def test_the_third_version_had_one_tolerance(tmp_path: Path) -> None:
    found = read_bundle(FIRST)
    write_bundle(tmp_path / "new", found.manifest, found.library, found.sample, found.expected)

    def of_3(values: dict[str, object]) -> bytes:
        before = {key: value for key, value in values.items() if key not in ("tolerances", "rates")}
        return json.dumps(before | {"schema_version": 3}, sort_keys=True, indent=2).encode() + b"\n"

    (tmp_path / "third").write_bytes(rebuilt(tmp_path / "new", manifest=of_3))
    assert read_bundle(tmp_path / "third").manifest == found.manifest


def test_the_fourth_version_had_rates_of_classes(tmp_path: Path) -> None:
    found = read_bundle(FIRST)
    write_bundle(tmp_path / "new", found.manifest, found.library, found.sample, found.expected)

    def of_4(values: dict[str, object]) -> bytes:
        before = {key: value for key, value in values.items() if key != "rates"}
        return json.dumps(before | {"schema_version": 4}, sort_keys=True, indent=2).encode() + b"\n"

    (tmp_path / "fourth").write_bytes(rebuilt(tmp_path / "new", manifest=of_4))
    assert read_bundle(tmp_path / "fourth").manifest == found.manifest


def test_rewritten_manifest_has_current_version(tmp_path: Path) -> None:
    old = read_bundle(FIRST)
    write_bundle(tmp_path / "new", old.manifest, old.library, old.sample, old.expected)
    assert written(tmp_path / "new")["schema_version"] == ONE_SHAPE, "whose rule it keeps"
    assert read_bundle(tmp_path / "new").manifest == old.manifest


@pytest.mark.slow  # edge-rt may have to be compiled
def test_the_first_version_still_runs() -> None:
    assert verify_bundle(read_bundle(FIRST), OnBoard(find_board("local"))).passed


def without(name: str) -> Callable[[dict[str, object]], bytes]:
    return lambda values: json.dumps({k: v for k, v in values.items() if k != name}).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changing(device="opencl:mali"), "device: no key of version 1, but of 2"),
        (changing(device="cpu", runtime={}), "device, runtime: no key of version 1, but of 2"),
        (changing(rates={}), "rates: no key of version 4, but of 5"),
        (changing(parts=[]), "parts: no key of version 5, but of 7"),
        (changing(surprise=1), "surprise"),
        (changing(threads=0), "threads"),
        (without("arch"), "arch"),
        (changing(schema_version=0), "schema_version is 0: the first one was 1"),
        (changing(schema_version=-1), "schema_version is -1: the first one was 1"),
        (changing(schema_version=True), "schema_version"),
        (changing(schema_version=1.0), "schema_version"),
        (changing(schema_version="1"), "schema_version"),
        (without("schema_version"), "device"),
        (changing(schema_version=2), "device"),
        (changing(schema_version=3), "device"),
        (changing(schema_version=4), "device"),
    ],
)
def test_refuses_damaged_bundle_of_version_1(
    tmp_path: Path, change: Callable[[dict[str, object]], bytes], said: str
) -> None:
    error = refusal(tmp_path / "x.bundle", rebuilt(FIRST, manifest=change))
    assert isinstance(error, CheckError) and said in error.message
    assert "toolchain build" in str(error.hint)


def test_newer_version_asks_for_upgrade(tmp_path: Path) -> None:
    error = refusal(
        tmp_path / "x.bundle", rebuilt(FIRST, manifest=changing(schema_version=SCHEMA_VERSION + 1))
    )
    assert isinstance(error, UsageError)
    assert f"newer toolchain: its schema_version is {SCHEMA_VERSION + 1}" in error.message
    assert "pip install --upgrade" in str(error.hint)
