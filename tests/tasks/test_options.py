"""What a user says about code."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from toolchain.errors import UsageError
from toolchain.tasks.options import CodeOptions


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("--layout nchw: no such choice", {"layout": "nchw"}),
        ("--dtype float64: no such choice", {"dtype": "float64"}),
        ("--winograd on: no such choice", {"winograd": "on"}),
    ],
)
def test_a_wrong_choice_names_the_option(option: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=option) as caught:
        CodeOptions(**wrong)
    assert caught.value.exit_code == 2


def test_they_are_typed_as_they_were() -> None:
    assert CodeOptions().typed() == ""
    assert CodeOptions(layout="NHWC", dtype="float16").typed() == " --layout NHWC --dtype float16"


def test_they_import_nothing_heavy() -> None:
    code = (
        "import sys, toolchain.tasks.options;"
        "print(sorted({'numpy', 'onnx', 'tvm', 'onnxruntime'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
