"""The device of docs/howto/add-a-device.md is C++ that edge-rt's headers know."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from tvm_ffi.libinfo import include_paths

from tests.devices.test_imaginary_metal import TABLET
from tests.howto.page import ROOT, blocks
from tests.imaginary_metal.kind import METAL
from toolchain.architectures.table import ARCHITECTURES
from toolchain.backends.table import PLUGINS
from toolchain.devices.kind import SEAMS
from toolchain.devices.table import KindTable
from toolchain.linking.zig import run_zig, zig_cache_environment

PAGE = "add-a-device.md"
NATIVE = ROOT / "toolchain" / "native"


def test_each_seam_has_the_table_that_the_page_says() -> None:
    """And the example has its code in the file that the page says."""
    rows = re.findall(
        r"\| `(\w+)` \| `(\w+)` of `([\w/]+)\.py` \|.*\| (?:`(\w+\.py)`|the toolchain's `(\w+)`) \|",
        (ROOT / "docs" / "howto" / PAGE).read_text(),
    )
    assert sorted(seam for seam, *_ in rows) == sorted(SEAMS)
    for seam, name, module, file, own in rows:
        table = getattr(importlib.import_module(module.replace("/", ".")), name)
        table = (
            PLUGINS if seam == "backends" else table
        )  # the own ones are a list, in the order of `--layout auto`
        assert isinstance(table, KindTable) and table._seam == seam
        code = METAL.code[seam]
        assert code.partition(":")[0].endswith(f".{Path(file).stem}") if file else code.endswith(f":{own}")


def test_the_class_is_that_of_the_example() -> None:
    (shown,) = re.findall(
        r"```toml\n(   \[\[devices\]\].*?)   ```", (ROOT / "docs" / "howto" / PAGE).read_text(), re.DOTALL
    )
    assert shown.replace("   ", "") in TABLET


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
