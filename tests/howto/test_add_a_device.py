"""The device of docs/howto/add-a-device.md is C++ that edge-rt's headers know."""

from __future__ import annotations

from pathlib import Path

import pytest
from tvm_ffi.libinfo import include_paths

from tests.howto.page import ROOT, blocks
from toolchain.architectures.table import ARCHITECTURES
from toolchain.linking.zig import run_zig, zig_cache_environment

PAGE = "add-a-device.md"
NATIVE = ROOT / "toolchain" / "native"


@pytest.mark.slow
def test_the_file_compiles(tmp_path: Path) -> None:
    (text,) = blocks(PAGE, "cpp")
    name, _, _rest = text.removeprefix("// ").partition(":")
    assert Path(name).parent == (NATIVE / "src").relative_to(ROOT) and not (ROOT / name).exists()
    assert Path(name).name in (ROOT / "docs" / "howto" / PAGE).read_text().partition("set(DEVICES")[2]
    source = tmp_path / Path(name).name
    source.write_text(text)
    folders = [f"-I{folder}" for folder in (NATIVE / "src", *include_paths())]
    target = ["-target", ARCHITECTURES["x86_64"].zig_target]
    options = ["-std=c++20", "-Wall", "-Werror", "-c", "-o", str(tmp_path / "npu.o")]
    done = run_zig(["c++", *target, *options, *folders, str(source)], 120, zig_cache_environment())
    assert done.returncode == 0, done.output
