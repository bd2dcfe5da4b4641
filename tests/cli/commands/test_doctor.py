"""`toolchain doctor`, on this machine and on ones that lack something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.opencl.oclgrind import is_packaged

NEEDED = (
    "python",
    "tvm loads",
    "onnxruntime",
    "cost model",
    "zig",
    "cmake",
    "ninja",
    "qemu for aarch64",
    "aarch64 C library",
    "qemu for armv7a",
    "armv7a C library",
    "opencl",
)


@pytest.mark.slow
def test_this_machine_has_everything(toolchain: Toolchain) -> None:
    ran = toolchain("doctor", "--json")
    checks = {check["name"]: check for check in ran.document["checks"]}
    assert ran.code == 0 and ran.document["passed"] is True
    for name in (*NEEDED, *(["oclgrind"] if is_packaged() else [])):
        assert checks[name]["state"] == "ok", checks[name]


@pytest.mark.slow
def test_each_setting_has_its_origin_and_what_is_missing_says_how_to_get_it(
    toolchain: Toolchain, folder: Path
) -> None:
    (folder / "toolchain.toml").write_text('jobs = 3\nqemu_aarch64 = "no-such-qemu"\n')
    ran = toolchain("doctor", TOOLCHAIN_CACHE_DIR="/proc/nowhere", TOOLCHAIN_JOBS="")
    assert ran.code == 3, "a cache that cannot be written is needed by everything"
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line}
    assert str(folder / "toolchain.toml") in lines["jobs"]
    assert "default" in lines["board"]
    assert "cache_dir: set cache_dir in toolchain.toml, or TOOLCHAIN_CACHE_DIR" in ran.out
    assert "apt-get install qemu-user-static" in ran.out
