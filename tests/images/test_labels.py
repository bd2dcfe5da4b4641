"""What an image says of itself, and of what it stands on."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.images.small_image import small_image
from tests.unique import UNIQUE
from toolchain import __version__
from toolchain.images import listing as labels_module
from toolchain.images.catalogue import image_named
from toolchain.images.contents import FOUNDATION_LABEL, LOCK_LABEL, lock_digest, sources_digest
from toolchain.images.engine import IMAGE_LABEL, SOURCES_LABEL, Engine
from toolchain.images.listing import ImageState, labels_of

ANNOTATION = "org.opencontainers.image"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["base", "aarch64", "armhf"])
def test_built_image_has_its_labels(built: Callable[[str], ImageState], engine: Engine, name: str) -> None:
    built(name)
    image = image_named(name)
    labels = engine.image_labels(image.tag)
    assert labels is not None
    assert labels[IMAGE_LABEL] == name
    assert labels[LOCK_LABEL] == lock_digest()
    assert labels[SOURCES_LABEL] == sources_digest(image)
    assert labels[f"{ANNOTATION}.version"] == __version__
    assert re.fullmatch(r"([0-9a-f]{40}(-dirty)?)?", labels[f"{ANNOTATION}.revision"])
    assert labels[f"{ANNOTATION}.base.digest"].startswith("sha256:")
    if image.stands_on:
        assert labels[f"{ANNOTATION}.base.name"] == image_named(image.stands_on).tag


def test_foundation_label_is_an_id_or_a_registrys_digest(engine: Engine, tmp_path: Path) -> None:
    image = image_named("aarch64")
    with small_image(engine, tmp_path, f"edge-toolchain/test-labels-{UNIQUE}:latest") as tag:
        image_labels = labels_of(engine, image, tag)
        assert image_labels[FOUNDATION_LABEL] == engine.api.inspect_image(tag)["Id"]
    assert image_labels[f"{ANNOTATION}.base.name"] == tag
    assert image_labels[f"{ANNOTATION}.title"] == "edge-toolchain aarch64"
    assert image_labels[f"{ANNOTATION}.description"] == image.description
    assert all(isinstance(value, str) for value in image_labels.values())


def test_revision_label_of_a_changed_checkout_is_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "toolchain" / "images" / "labels.py"
    package.parent.mkdir(parents=True)
    shutil.copy(labels_module.__file__, package)
    monkeypatch.setattr(labels_module, "__file__", str(package))
    assert labels_module._revision() == "", "no checkout"
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (["init", "-q"], ["add", "."], [*name, "commit", "-qm", "first"], ["tag", "v1"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert re.fullmatch("[0-9a-f]{40}", labels_module._revision()), "a tag's name is no commit"
    package.write_text("changed\n")
    assert re.fullmatch("[0-9a-f]{40}-dirty", labels_module._revision())
