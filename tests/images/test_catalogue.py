"""The table of images: what is in the checkout fits it, and bad tables are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from toolchain.errors import UsageError
from toolchain.images.catalogue import catalogue, docker_folder, image_named, usual, with_foundations


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    catalogue.cache_clear()
    yield
    catalogue.cache_clear()


def test_every_folder_has_a_dockerfile_for_old_engines() -> None:
    for image in catalogue().values():
        if image.folder:
            text = (image.path / "Dockerfile").read_text()
            assert "--mount" not in text and "<<" not in text and "# syntax" not in text, image.name
            assert "apt-get" not in text, f"{image.name}: packages.sh unpacks packages"
            stages = text.count("\nFROM ") + text.startswith("FROM ")
            assert text.count(f"LABEL edge-toolchain.stage={image.name}\n") == stages - 1, image.name


def test_base_images_come_first() -> None:
    assert [i.name for i in with_foundations(["armhf", "aarch64"])] == ["base", "aarch64", "armhf"]
    assert [i.name for i in with_foundations(["base"])] == ["base"]


def test_optional_images_are_built_only_by_name() -> None:
    assert set(catalogue()) - set(usual()) == {"mali-model", "board-arm64-opencl"}


def test_unknown_image_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no image 'aarch46'.*base, aarch64"):
        image_named("aarch46")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('[a]\ndescription = "x"\nfolder = "a"\nstands_on = "b"\n', "a stands on 'b'"),
        ('[a]\ndescription = "x"\n', "either folder or system"),
        ('[a]\ndescription = "x"\nfolder = "a"\nfodler = 1\n', "fodler"),
        ("[a\n", "images.toml cannot be read"),
    ],
)
def test_invalid_table_is_reported(tables: Path, table: str, says: str) -> None:
    (tables / "images.toml").write_text(table)
    with pytest.raises(UsageError, match=says):
        catalogue()


def test_table_of_a_checkout() -> None:
    assert (docker_folder() / "images.toml").is_file()
