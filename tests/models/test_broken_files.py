"""Files that cannot be built are refused in words of ours: what is wrong, where, and what to type."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models.broken import FILES
from tests.models.broken_graphs import floats, network, node, packed, weighted
from tests.models.rewrites.judge import assert_same, loaded, refused
from toolchain.errors import UsageError
from toolchain.models.inspect import inspect_model
from toolchain.models.load import check_source
from toolchain.models.options import ModelOptions

FOREIGN = ("InferenceError", "Check failed", "No Op registered", "ir.Op", "Traceback", "ONNXRuntimeError")
"""Words of other libraries, which say nothing to a user."""


def written(name: str, folder: Path) -> Path:
    """Write a file of the table; return its path."""
    content = FILES[name][0]()
    path = folder / "net.onnx"
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_refused_in_words_of_ours(name: str, tmp_path: Path) -> None:
    path = written(name, tmp_path)
    _, says, hint = FILES[name]
    begin = time.process_time()
    with pytest.raises(UsageError) as caught:
        check_source(str(path), ModelOptions())
    assert time.process_time() - begin < 2
    assert caught.value.message.startswith(str(path))
    assert says in caught.value.message
    assert hint in caught.value.hint
    assert not [word for word in FOREIGN if word in str(caught.value)]


@pytest.mark.parametrize("name", FILES)
def test_inspect_and_build_give_the_same_refusal(name: str, tmp_path: Path) -> None:
    path = written(name, tmp_path)
    with pytest.raises(UsageError) as caught:
        check_source(str(path), ModelOptions())
    try:
        found = inspect_model(str(path), ModelOptions())
    except UsageError as error:
        assert error.message == caught.value.message
    else:
        if found["open"]:
            assert "--shape" in caught.value.hint
        else:
            assert found["refusal"] == {"message": caught.value.message, "hint": caught.value.hint}


def test_at_least_forty_files() -> None:
    assert len(FILES) >= 40


@pytest.mark.slow
def test_refusals_need_no_tvm(tmp_path: Path) -> None:
    """Its import takes as long as all of the rest."""
    paths = []
    for place, name in enumerate(FILES):
        (tmp_path / str(place)).mkdir()
        paths.append(str(written(name, tmp_path / str(place))))
    program = (
        "import sys\n"
        "from toolchain.errors import UsageError\n"
        "from toolchain.models.load import check_source\n"
        "from toolchain.models.options import ModelOptions\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        check_source(path, ModelOptions())\n"
        "        sys.exit(f'{path} was taken')\n"
        "    except UsageError:\n"
        "        pass\n"
        "print('tvm' in sys.modules)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *paths], capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.stdout, ran.returncode) == ("False\n", 0), ran.stderr


@pytest.mark.slow
def test_import_refusal_names_node_and_inputs(tmp_path: Path) -> None:
    model = network(
        node("LSTM", ["x", "w", "r"], ["y"], "cells", hidden_size=3),
        x=(2, 1, 4),
        w=floats(1, 12, 5),
        r=floats(1, 12, 3),
    )
    error = refused(model, tmp_path)
    assert "LSTM (node 'cells') of x=2,1,4 float32, w=1,12,5 float32" in error.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", [TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2]
)
def test_weights_of_few_bits_are_the_numbers_that_they_mean(code: int, tmp_path: Path) -> None:
    ones = packed("w", code, (4, 6))
    values = np.arange(1, 25).reshape(4, 6) % 7
    ones.CopyFrom(helper.make_tensor("w", code, (4, 6), values.astype(np.float32).flatten().tolist()))
    scales = np.linspace(0.1, 0.7, 6).astype(np.float32)
    model = network(
        node("DequantizeLinear", ["w", "s"], ["v"], axis=1),
        node("MatMul", ["x", "v"], ["y"]),
        s=scales,
        stored=[ones],
    )
    assert_same(loaded(model, tmp_path))


@pytest.mark.slow
def test_int4_weights_in_blocks(tmp_path: Path) -> None:
    weight = helper.make_tensor("w", TensorProto.INT4, (8, 6), (np.arange(48) % 16 - 8).tolist())
    zero = helper.make_tensor("z", TensorProto.INT4, (2, 6), (np.arange(12) % 5 - 2).tolist())
    model = network(
        node("DequantizeLinear", ["w", "s", "z"], ["v"], axis=0, block_size=4),
        node("MatMul", ["x", "v"], ["y"]),
        x=(1, 8),
        s=np.linspace(0.1, 1.2, 12).reshape(2, 6).astype(np.float32),
        stored=[weight, zero],
    )
    assert_same(loaded(model, tmp_path))
    path = tmp_path / "network.onnx"
    assert inspect_model(str(path), ModelOptions())["parameters"] >= 48


@pytest.mark.slow
def test_a_sparse_constant(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.float32([2, 3]), "v")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, 3]), "i"), [4])
    model = network(node("Constant", [], ["w"], sparse_value=sparse), node("Mul", ["x", "w"], ["y"]))
    assert_same(loaded(model, tmp_path))


@pytest.mark.slow
def test_the_standard_domain_by_its_other_name(tmp_path: Path) -> None:
    model = network(node("Relu", ["x"], ["h"], domain="ai.onnx"), node("Neg", ["h"], ["y"]))
    assert_same(loaded(model, tmp_path))
    model.opset_import[0].domain = "ai.onnx"
    assert_same(loaded(model, tmp_path))


def test_an_extent_of_0_is_refused_as_typed(tmp_path: Path) -> None:
    from toolchain.models.options import parse_shape

    with pytest.raises(UsageError, match=r"--shape past=1,2,0,8: an extent of 0") as caught:
        parse_shape("past=1,2,0,8")
    assert "decoder_model.onnx" in caught.value.hint
    path = tmp_path / "net.onnx"
    onnx.save(weighted("Add", floats(4), ("n", 4)), path)
    with pytest.raises(UsageError, match=r"--shape x=0,4: an extent of 0"):
        check_source(str(path), ModelOptions(shapes={"x": (0, 4)}))
