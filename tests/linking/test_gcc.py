"""Which gcc links for an architecture on this host."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.linking.conftest import Workshop
from toolchain.architectures.table import LINUX
from toolchain.errors import MissingError
from toolchain.linking import linker_named
from toolchain.linking.table import gcc_program


@pytest.mark.slow
def test_missing_gcc_is_reported(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    objects = workshop.objects()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="--linker gcc") as caught:
        linker_named("gcc").link(objects, workshop.folder / "lib.so", workshop.profile)
    assert "apt-get install gcc" in caught.value.hint


def test_an_arm64_host_links_for_itself_by_its_own_gcc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", str(tmp_path))
    hints = {}
    for name in ("aarch64", "x86_64"):
        with pytest.raises(MissingError) as caught:
            gcc_program(LINUX[name])
        hints[name] = caught.value.hint
    assert hints["aarch64"] == "apt-get install gcc, or use --linker zig"
    assert hints["x86_64"] == "apt-get install gcc-x86-64-linux-gnu, or use --linker zig"
    (tmp_path / "gcc").touch(0o755)
    assert gcc_program(LINUX["aarch64"]) == str(tmp_path / "gcc")
