"""Which backend makes the code that was asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolchain.backends.table import backend_for
from toolchain.errors import UsageError
from toolchain.profiles import load_profile
from toolchain.tasks.options import CodeOptions


@pytest.mark.parametrize(
    ("typed", "name", "layout"),
    [
        ({}, "packed", "packed"),
        ({"layout": "packed", "winograd": "off"}, "packed", "packed"),
        ({"layout": "NCHW"}, "tensorir", "NCHW"),
        ({"layout": "NHWC"}, "tensorir", "NHWC"),
    ],
    ids=str,
)
def test_the_layout_chooses(typed: dict[str, str], name: str, layout: str) -> None:
    found = backend_for(load_profile("rk3399"), CodeOptions(**typed))
    assert (found.name, found.layout, found.dtype) == (name, layout, "float32")
    assert found.target().device == ""


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"device": "npu"}, ["--device npu", "rk3399"]),
        (
            {"device": "opencl", "layout": "NCHW"},
            ["--layout NCHW: there is no code in this layout for --device opencl"],
        ),
        ({"layout": "NCHW", "dtype": "float16"}, ["--dtype float16", "--layout NCHW"]),
    ],
    ids=str,
)
def test_what_nothing_makes_is_refused(typed: dict[str, str], says: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        backend_for(load_profile("rk3399"), CodeOptions(**typed))
    assert all(word in caught.value.message for word in says)


@pytest.mark.slow
def test_a_build_of_packed_code_does_without_metaschedule() -> None:
    code = (
        "import sys\n"
        "from toolchain.imports.tvm_import import import_tvm; import_tvm()\n"
        "from toolchain.backends.table import backend_for\n"
        "from toolchain.profiles import load_profile\n"
        "from toolchain.tasks.options import CodeOptions\n"
        "backend_for(load_profile('rk3399'), CodeOptions())\n"
        "print('toolchain.backends.tensorir.backend' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
