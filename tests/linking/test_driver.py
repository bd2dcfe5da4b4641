"""A compiler driver links as lld alone does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.linking.conftest import Workshop
from toolchain.configuration import settings as config
from toolchain.errors import ToolchainError
from toolchain.linking import check_library, linker_named
from toolchain.linking.zig import zig_program

pytestmark = pytest.mark.slow

CALLED = ("expf", "memcpy", "TVMFFIErrorSetRaisedFromCStrParts")


def test_library_linked_by_gcc_passes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A compiler driver of gcc's name and options is on the PATH: zig's, which every host has."""
    objects = workshop.objects(*CALLED)
    target = workshop.arch.zig_target.replace("android", "gnu")  # zig links for Android by lld alone
    driver = tmp_path / workshop.arch.gcc
    driver.write_text(f'#!/bin/sh\nexec {zig_program()} cc -O2 -target {target} "$@"\n')
    driver.chmod(0o755)
    cache = str(config.cache_dir() / "zig")
    for name, value in {
        "PATH": f"{tmp_path}:/bin",
        "ZIG_GLOBAL_CACHE_DIR": cache,
        "ZIG_LOCAL_CACHE_DIR": cache,
    }.items():
        monkeypatch.setenv(name, value)
    out = workshop.folder / "lib.so"
    linker_named("gcc").link(objects, out, workshop.profile)
    check_library(out, workshop.profile, objects)
    with pytest.raises(ToolchainError, match="dgemm_"):
        linker_named("gcc").link(workshop.objects("dgemm_"), out, workshop.profile)
