"""What calls edge-rt from Python has structures as its header has them: beyond a short one lies anything."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.latency import engines
from tests.runtime import loops

_HEADER = Path(engines.__file__).parents[2] / "toolchain" / "native" / "edge_rt.h"


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("edge_options", engines._Options),
        ("edge_options", loops.Options),
        ("edge_tensor", engines._Tensor),
    ],
)
def test_fields_are_the_headers(name: str, structure: Any) -> None:
    body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", _HEADER.read_text(), re.DOTALL)[1]
    declared = re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL))
    assert [field for field, _ in structure._fields_] == declared
