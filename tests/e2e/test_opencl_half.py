"""A network in float16 for a device: its kernels compile. None ran: no driver here computes in float16."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.running import Toolchain
from tests.opencl.clang import problems
from tests.runtime.opencl_network import code_of
from toolchain.bundles.read import read_bundle
from toolchain.devices.kernel import Kernel

_MOST_SUMS = 192  # bytes: 4 columns of 8 sums, in parts and in all


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_every_kernel_of_a_network_compiles(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))  # other tests have records, too
    typed = ("zoo:mobilenet", "--board", "rk3399", "--device", "opencl", "--dtype", "float16")
    built = invoke("build", *typed, "-o", "out", "--json")
    assert built.code == 0, built.err
    source = code_of(read_bundle(Path(built.document["bundle"])).library)
    kernels = re.findall(r"__kernel void (\w+)\([^;{]*\) \{", source)
    assert len(kernels) >= 24 and source.count("half8") > 100
    assert "barrier(" not in source and "__local" not in source
    assert not problems(source)
    for section in source.split("// Function: "):
        sums = "".join(re.findall(r"(?m)^ *(?:float|half)8 _ptr(?:_1)?\[\d\];$", section))
        assert Kernel("", sums, (1, 1, 1), (1, 1, 1)).private_bytes <= _MOST_SUMS
