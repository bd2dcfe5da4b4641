"""Images as files: what Docker is told about them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from toolchain.images.registry.archive import add_file, write_archive


def archive_of(folder: Path, architecture: str = "arm64") -> Path:
    folder.mkdir()
    with tarfile.open(folder / "layer", "w") as layer:
        add_file(layer, "etc/motd", b"hello\n")
    write_archive(
        folder / "image", folder / "layer", "test:1", architecture, ["/bin/x"], {"edge-toolchain": "t"}
    )
    return folder / "image"


def test_archive_names_layer_digest_and_architecture(tmp_path: Path) -> None:
    image = archive_of(tmp_path / "a")
    with tarfile.open(image) as archive:
        entry = json.load(archive.extractfile("manifest.json"))[0]
        text = archive.extractfile(entry["Config"]).read()
        layer = archive.extractfile(entry["Layers"][0]).read()
    configuration = json.loads(text)
    assert entry["RepoTags"] == ["test:1"]
    assert entry["Config"] == hashlib.sha256(text).hexdigest() + ".json"
    assert configuration["architecture"] == "arm64" and configuration["os"] == "linux"
    assert configuration["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert configuration["created"] == "2023-06-10T00:00:00Z", "as the files in it"
    assert configuration["config"] == {"Cmd": ["/bin/x"], "Labels": {"edge-toolchain": "t"}}


def test_the_same_layer_gives_the_same_bytes(tmp_path: Path) -> None:
    assert archive_of(tmp_path / "a").read_bytes() == archive_of(tmp_path / "b").read_bytes()
    assert archive_of(tmp_path / "c", "arm").read_bytes() != (tmp_path / "a" / "image").read_bytes()
