"""The image `android` with a stand-in for an NDK, whose compiler hands on to zig's lld: no NDK was run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.test_ndk import BIN, NDK, archive_of
from tests.linking.test_ndk import stand_in_for
from tests.measuring.small_network import built, network
from tests.unique import UNIQUE
from toolchain.errors import ToolchainError
from toolchain.images.catalogue import image_named
from toolchain.images.contents import Item, items_of, write_context
from toolchain.images.engine import LABEL, Engine
from toolchain.images.making.build import build_images, follow

pytestmark = pytest.mark.slow

TAG = f"edge-toolchain/android-test:{UNIQUE}"
PYTHON, ZIG = "/opt/venv/bin/python", "/opt/venv/lib/python3.11/site-packages/ziglang/zig"


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, str]:
    """Return an archive of an NDK's form, and its SHA-256."""
    file = tmp_path / "ndk.zip"
    compiler = stand_in_for(PYTHON, ZIG)
    return file, archive_of({**NDK, f"{BIN}/clang-99": (compiler, NDK[f"{BIN}/clang-99"][1])}, file)


def build_image(engine: Engine, folder: Path, archive: Path, digest: str) -> None:
    """Build the image under a tag of its own, as `toolchain image build android` does."""
    image = image_named("android")
    context = folder / "context.tar"
    write_context(context, [*items_of(image), Item("given/ndk.zip", archive)], ["certs", "given"])
    values = {
        "FOUNDATION": image_named("base").tag,
        "NDK_ARCHIVE": "given/ndk.zip",
        "NDK_SHA256": digest,
    }
    with context.open("rb") as file, engine.request("build the image"):
        stream = engine.api.build(
            fileobj=file,
            custom_context=True,
            decode=True,
            tag=TAG,
            rm=True,
            forcerm=True,
            network_mode="none",
            buildargs=values,
        )
        follow("android", "Dockerfile", stream, lambda _: None)


@pytest.fixture
def with_ndk(engine: Engine, archive: tuple[Path, str], tmp_path: Path) -> Iterator[str]:
    build_images(engine, ["base"], progress=print)
    build_image(engine, tmp_path, *archive)
    yield TAG
    engine.api.remove_image(TAG)


def test_ndk_archive_with_another_digest_fails_the_build(
    engine: Engine, archive: tuple[Path, str], tmp_path: Path
) -> None:
    build_images(engine, ["base"], progress=print)
    with pytest.raises(ToolchainError, match=r"(?s)RUN python /unpack_ndk\.py.* failed.*NDK_SHA256 is 0{64}"):
        build_image(engine, tmp_path, archive[0], "0" * 64)
    assert not engine.api.images(TAG)


def test_library_is_linked_by_the_ndks_compiler(engine: Engine, with_ndk: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    network(work / "small.onnx")
    argv = ["toolchain", "build", "small.onnx", "--board", "android-arm64", "--linker", "ndk", "-o", "out"]
    container = engine.api.create_container(
        with_ndk,
        argv,
        working_dir="/work",
        user=f"{os.getuid()}:{os.getgid()}",
        environment={"HOME": "/tmp", "TOOLCHAIN_ENGINE": "host"},
        labels={LABEL: "test"},
        host_config=engine.api.create_host_config(binds={str(work): {"bind": "/work"}}, network_mode="none"),
    )["Id"]
    try:
        engine.api.start(container)
        code = engine.api.wait(container, timeout=600)["StatusCode"]
        assert code == 0, engine.api.logs(container).decode()
    finally:
        engine.api.remove_container(container, force=True)
    here = built("android-arm64", tmp_path)
    assert (work / "out" / "small-android-arm64.so").read_bytes() == here.library
