"""`build --check`: right, wrong, and where it cannot be."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

import pytest

from toolchain.boards.inventory.lookup import find_target
from toolchain.building import build as building
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.errors import CheckError, UsageError
from toolchain.images.running.environment import IMAGE_VARIABLE
from toolchain.models.judging.reference import Reference
from toolchain.models.load import Model

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("format", ["so", "tar"])
def test_checked_bundle_is_written(model: Model, tmp_path: Path, format: Literal["so", "tar"]) -> None:
    made = build(model, find_target("local"), None, tmp_path, BuildOptions(check=True, format=format))
    assert made.checked is not None and made.checked.passed and made.bundle.exists()
    assert made.checked.place["board"] == "local"


@pytest.mark.usefixtures("state")
def test_failed_check_writes_nothing(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that the code cannot meet stands for code that is wrong."""
    reference_for = building.reference_for

    def other(model: Model, options: BuildOptions) -> Reference:
        found = reference_for(model, options)
        return dataclasses.replace(found, outputs={name: each + 1 for name, each in found.outputs.items()})

    monkeypatch.setattr(building, "reference_for", other)
    with pytest.raises(CheckError, match=r"wrong numbers on board local: output .* is expected"):
        build(model, find_target("local"), None, tmp_path / "out", BuildOptions(check=True))
    assert not (tmp_path / "out").exists()


def test_another_architecture_is_refused_at_once(model: Model, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"this host, which is x86_64; rk3399 is aarch64 .*toolchain verify"):
        build(model, find_target("rk3399"), None, tmp_path, BuildOptions(check=True))
    assert list(tmp_path.iterdir()) == []


def test_refuses_check_inside_container(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IMAGE_VARIABLE, "sha256:of-an-image")
    with pytest.raises(UsageError, match="this build runs in a container") as caught:
        build(model, find_target("local"), None, tmp_path / "out", BuildOptions(check=True))
    assert "--engine host" in str(caught.value.hint) and not (tmp_path / "out").exists()
