from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tvm

from tests.records.matmul import matmul
from toolchain.lowering.functions.definition import definition_of, function_of
from toolchain.lowering.functions.tasks import same_workload, workload_hash

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_names_do_not_count() -> None:
    func = matmul(16)
    other = tvm.script.from_source(func.script().replace("C[", "Result[").replace("C:", "Result:"))
    other = other.with_attr("global_symbol", "fused_matmul").with_attr("op_pattern", 4)
    assert workload_hash(func) == workload_hash(other.without_attr("tirx.noalias"))
    assert same_workload(func, other)


def test_shapes_and_meaning_count() -> None:
    func = matmul(16)
    assert workload_hash(func) != workload_hash(matmul(17))
    assert workload_hash(func) != workload_hash(func.with_attr("layout_free_buffers", [1]))
    assert not same_workload(func, matmul(17))


def test_a_function_survives_as_text() -> None:
    func = matmul(16)
    back = function_of(definition_of(func))
    assert same_workload(func, back)
    assert workload_hash(func) == workload_hash(back)


@pytest.mark.slow
def test_every_process_gives_the_same_hash() -> None:
    said = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        program = [sys.executable, "-m", "tests.records.matmul"]
        said.append(
            subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, check=True).stdout
        )
    assert said[0] == said[1]
    digest, text = said[0].decode().split()
    assert digest == workload_hash(matmul(16))
    assert len(text) == 64  # of definition_of: the same function is kept once
