"""`toolchain image bootstrap`."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.images.docker_registry import docker_registry
from toolchain.configuration.settings import configuration
from toolchain.images.debian.bootstrap import ensure_debian
from toolchain.images.engine import connect


@pytest.mark.slow
def test_the_debian_of_images_comes_from_a_registry_by_its_digest(
    invoke: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with docker_registry(tmp_path / "registry") as port, connect() as engine:
        made = ensure_debian(engine, print)
        repository = f"127.0.0.1:{port}/debian"
        engine.api.tag(made, repository, "latest")
        events = list(engine.api.push(repository, stream=True, decode=True))
        digest = next(event["aux"]["Digest"] for event in events if "aux" in event)
        engine.api.remove_image(f"{repository}:latest")
        pinned = f"{repository}@{digest}"

        monkeypatch.setenv("TOOLCHAIN_DEBIAN_IMAGE", pinned)
        configuration.cache_clear()
        try:
            ran = invoke("image", "bootstrap", "--json")
            assert (ran.code, ran.document) == (0, {"tag": pinned}), ran.err
            assert engine.api.inspect_image(pinned)["Id"] == engine.api.inspect_image(made)["Id"]
            built = engine.api.build(fileobj=BytesIO(f"FROM {pinned}\n".encode()), decode=True, rm=True)
            assert not [line for line in built if "error" in line]
        finally:
            engine.api.remove_image(pinned)

        monkeypatch.setenv("TOOLCHAIN_DEBIAN_IMAGE", f"{repository}@sha256:{'0' * 64}")
        configuration.cache_clear()
        ran = invoke("image", "bootstrap")
        assert ran.code == 1 and ran.says("manifest unknown", "hint:")
    configuration.cache_clear()
    monkeypatch.setenv("TOOLCHAIN_DEBIAN_IMAGE", f"{repository}:latest")
    assert invoke("image", "bootstrap").code == 2, "without a digest it is not pinned"
