"""Files that are refused, and by which sentence."""

from __future__ import annotations

import builtins
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.tflite.cases import CASES
from tests.models.tflite.writer import Writer
from toolchain.errors import MissingError, UsageError
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.reading.source import read_source
from toolchain.models.tflite.convert import read_tflite


def _one(name: str = "RELU", table: str = "", x: dict[str, Any] | None = None, **options: Any) -> Writer:
    """Return a network of one operator on one tensor."""
    writer = Writer()
    writer.inputs = [writer.add((1, 2, 2, 3), **(x or {}))]
    writer.outputs = [writer.add((1, 2, 2, 3), **(x or {}))]
    writer.call(name, writer.inputs, writer.outputs, table, **options)
    return writer


def _quantised(**named: Any) -> Writer:
    return _one(x={"dtype": "int8"} | named)


def _two_graphs() -> Writer:
    writer = _one()
    writer.subgraphs = 2
    return writer


def _twice() -> Writer:
    writer = _one()
    writer.calls *= 2
    return writer


def _unready() -> Writer:
    writer = _one()
    writer.inputs, writer.calls = [writer.add((1,))], writer.calls
    return writer


def _shape(y: tuple[int, ...]) -> Writer:
    writer = _one()
    writer.tensors[1].shape = y
    return writer


def _rows() -> Writer:
    writer = Writer()
    x = [writer.add((2, 2)) for _ in range(2)]
    writer.inputs, writer.outputs = [writer.add((2,), "bool"), *x], [writer.add((2, 2))]
    writer.call("SELECT", writer.inputs, writer.outputs)
    return writer


def _resized(height: int, width: int) -> Writer:
    writer = _one()
    options = {"AlignCorners": False, "HalfPixelCenters": False}
    sizes = writer.constant(np.array([height, width], "int32"))
    writer.calls.clear()
    writer.call(
        "RESIZE_NEAREST_NEIGHBOR",
        [*writer.inputs, sizes],
        writer.outputs,
        "ResizeNearestNeighborOptions",
        **options,
    )
    return writer


def _dilated() -> Writer:
    """Return a network of constants of five dimensions, whose kernel would be spread over 2000 rows."""
    writer = _one()
    x, kernel = (writer.constant(np.ones(shape, "int32")) for shape in [(1, 1, 1, 1, 1), (1, 2, 2, 1)])
    writer.outputs.append(writer.add((1, 1, 1, 1, 1), "int32"))
    options = {"DilationHFactor": 2000, "DilationWFactor": 2000, "StrideH": 1, "StrideW": 1}
    writer.call("CONV_2D", [x, kernel], writer.outputs[1:], "Conv2DOptions", **options)
    return writer


def _stored(array: np.ndarray, shape: tuple[int, ...]) -> Writer:
    writer = _one()
    writer.constant(array)
    writer.tensors[-1].shape = shape
    return writer


def _meant(shape: tuple[int, ...], dtype: str = "float32", times: int = 1) -> Writer:
    """Return a network beside which the numbers of three constant integers are a constant."""
    writer = _one()
    stored, result = writer.constant(np.ones(3, "int8"), scale=0.1), writer.add(shape, dtype)
    for _ in range(times):
        writer.call("DEQUANTIZE", [stored], [result])
    return writer


def _computed(
    name: str, x: list[int], y: tuple[int, ...], *more: list[int], table: str = "", **options: Any
) -> Writer:
    """Return a network beside which an operator computes something of constant integers."""
    writer = _one()
    given = [writer.constant(np.array(each, "int32")) for each in (x, *more)]
    writer.call(name, given, [writer.add(y, "int32")], table, **options)
    return writer


REFUSED = [
    (_one("CUSTOM:TFLite_Detection_PostProcess"), "custom operator 'TFLite_Detection_PostProcess'"),
    (_one("LSH_PROJECTION"), "not supported of TensorFlow Lite: LSH_PROJECTION"),
    (_one("WHILE"), "operator 0 (WHILE) calls another graph of the file"),
    (_two_graphs(), "holds 2 graphs (signatures); one is read"),
    (_quantised(dtype="int4", scale=0.1), "is of INT4, which is not supported"),
    (_quantised(dtype="int16", scale=0.1), "is of INT16, which is not supported"),
    (_one(x={"dtype": "complex64"}), "is of COMPLEX64, which is not supported"),
    (_one(x={"sparse": True}), "tensor 0 ('t0') is sparse"),
    (_one(x={"variable": True}), "is a variable: it keeps its value"),
    (_one(x={"signature": (-1, -1, -1, 3)}), "has the open or empty shape [-1, -1, -1, 3]"),
    (_shape((1, 2, 0, 3)), "has the open or empty shape [1, 2, 0, 3]"),
    (_shape((1, 2, 2, 4)), "is declared as float32 [1, 2, 2, 4], but computed as float32 [1, 2, 2, 3]"),
    (_shape((2**31 - 1, 2**31 - 1, 2, 3)), "is broken: no memory holds its shape"),
    (_quantised(scale=0.0), "is broken: its scale is 0.0"),
    (_quantised(scale=np.nan), "is broken: its scale is nan"),
    (_quantised(scale=np.inf), "is broken: its scale is inf"),
    (_quantised(scale=0.1, zero=128), "its zero points do not fit"),
    (_quantised(scale=[0.1, 0.2], axis=3), "2 scales along dimension 3 of [1, 2, 2, 3]"),
    (_quantised(scale=[0.1, 0.2, 0.3], axis=4), "3 scales along dimension 4 of [1, 2, 2, 3]"),
    (_quantised(scale=[0.1, 0.2, 0.3], axis=3), "quantised by channel: only one scale"),
    (_stored(np.zeros(3, "float32"), (4,)), "it needs 16 bytes, the file has 12"),
    (_twice(), "broken: tensor 1 ('t1') is computed twice"),
    (_resized(0, 2), "contradict each other: an output of 0 x 2"),
    (_resized(2, 2**31 - 1), "an output of 2 x 2147483647 is not supported"),
    (_unready(), "broken: tensor 0 ('t0') is read before it is computed"),
    (_one("MAX_POOL_2D", "Pool2DOptions", FilterWidth=2), "operator 0 (MAX_POOL_2D) is broken"),
    (_one("AVERAGE_POOL_2D", "SoftmaxOptions", Beta=1.0), "operator 0 (AVERAGE_POOL_2D) is broken"),
    (_one("L2_NORMALIZATION", "L2NormOptions", FusedActivationFunction=4), "fused activation function 4"),
    (_rows(), "operator 0 (SELECT): a condition for each row is not supported"),
    (_one("ADD", "AddOptions"), "operator 0 (ADD) is broken"),
    (_computed("GATHER", [1, 2, 3], (1,), [7]), "contradict each other: its constants do not fit together"),
    (_computed("ADD", [1, 2, 3], (3,), [1, 2], table="AddOptions"), "(ADD) is broken"),
    (_computed("NEG", [1, 2, 3], (4,)), "(NEG) is broken"),
    (_computed("TILE", [1], (1,), [30_000_000]), "a result [30000000] where [1] is declared"),
    (_computed("PAD", [1], (1,), [[0, 30_000_000]]), "a result [30000001] where [1] is declared"),
    (_computed("MIRROR_PAD", [1, 2], (2,), [[0, 30_000_000]]), "a result [30000002] where [2] is declared"),
    (_computed("STRIDED_SLICE", [1, 2, 3], (), [-5], [0], [1], table="StridedSliceOptions", ShrinkAxisMask=1),
     "operator 1 (STRIDED_SLICE) is broken"),
    (_meant((4,)), "(DEQUANTIZE) is broken: its options or tensors contradict each other: a constant [3]"),
    (_meant((3,), "int32"), "a constant of float32 where int32 is declared"),
    (_meant((3,), times=2), "tensor 3 ('t3') is computed twice"),
    (_dilated(), "its operators do not fit together"),
]  # fmt: skip


@pytest.mark.parametrize(("writer", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_refuses_unsupported_content_by_name(writer: Writer, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_tflite(writer.finish(), "net.tflite")
    assert says in caught.value.message and caught.value.message.startswith("net.tflite")
    assert caught.value.hint


@pytest.mark.slow
def test_bytes_that_are_used_again_and_again_are_refused() -> None:
    """A buffer of 8 MB, read by 20 tensors, would be 160 MB of constants."""
    writer = Writer()
    array = np.zeros(1 << 21, "float32")
    writer.inputs = [writer.add(array.shape)]
    place = writer.constant(array)
    last = writer.inputs[0]
    for _ in range(20):
        other, result = writer.add(array.shape, buffer=place + 1), writer.add(array.shape)
        writer.call("ADD", [last, other], [result], "AddOptions")
        last = result
    writer.outputs = [last]
    with pytest.raises(UsageError, match="its constants take more than 128 MiB") as caught:
        read_tflite(writer.finish(), "net.tflite")
    assert caught.value.hint


@pytest.mark.slow
def test_the_numbers_that_constants_mean_are_counted_before_they_are_computed() -> None:
    """A buffer of 2 MB, read as int8 by 20 tensors, would be 160 MB of float32 that no operator reads."""
    writer = _one()
    array = np.zeros(1 << 21, "int8")
    place = writer.constant(array, scale=0.1)
    for _ in range(20):
        other = writer.add(array.shape, "int8", scale=0.1, buffer=place + 1)
        writer.call("DEQUANTIZE", [other], [writer.add(array.shape)])
    with pytest.raises(UsageError, match="its constants take more than 80 MiB"):
        read_tflite(writer.finish(), "net.tflite")


def test_a_name_that_is_used_again_and_again_is_refused() -> None:
    """Tables may be at one place: here each of 5 000 tensors is the one with a name of 1 MB."""
    writer = _one()
    writer.tensors[0].name = "x" * (1 << 20)
    writer.repeated = 5_000
    with pytest.raises(UsageError, match="use the same bytes again and again"):
        read_tflite(writer.finish(), "net.tflite")


def test_an_operator_of_too_many_operands_is_refused_with_the_limit() -> None:
    writer = _one()
    writer.call("CONCATENATION", writer.inputs * 1025, [writer.add((1025, 2, 2, 3))], "ConcatenationOptions")
    with pytest.raises(UsageError, match=r"net.tflite: .* has 1025 .* at most 1024 are read") as caught:
        read_tflite(writer.finish(), "net.tflite")
    assert "fewer operands" in caught.value.hint


@pytest.mark.parametrize("size", [0, 3, 8, 20, 200])
def test_a_truncated_file(size: int, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(_one().finish()[:size])
    with pytest.raises(UsageError, match=r"a broken TensorFlow Lite file|or a truncated one|is empty"):
        load_model(str(path), ModelOptions())


def test_a_file_of_2_gib(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    with path.open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(UsageError, match=r"has 2147483648 bytes; at most 2147483647 are read"):
        load_model(str(path), ModelOptions())


def test_a_file_of_another_ending_is_known_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "net.lite"
    data = _one("TANH").finish()
    path.write_bytes(data)
    source = read_source(str(path), ModelOptions())
    assert (source.name, source.origin) == ("net", str(path))
    assert source.sha256 == hashlib.sha256(data).hexdigest()


def test_refuses_other_content_of_tflite_ending(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(UsageError, match="is a zip archive, not a TensorFlow Lite file") as caught:
        load_model(str(path), ModelOptions())
    assert "the .tflite file in it" in str(caught.value.hint)
    path.write_bytes(bytes(100))
    with pytest.raises(UsageError, match="not a TensorFlow Lite file, or a truncated one"):
        load_model(str(path), ModelOptions())
    with pytest.raises(UsageError, match="there is no file"):
        load_model(str(tmp_path / "other.tflite"), ModelOptions())


def test_missing_package_names_the_extra_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name == "tflite":
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.delitem(sys.modules, "tflite", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "net.tflite").write_bytes(b"\0\0\0\0TFL3")
    with pytest.raises(MissingError, match=r"net.tflite: .* need the Python package tflite") as caught:
        read_source(str(tmp_path / "net.tflite"), ModelOptions())
    assert caught.value.hint == "pip install 'edge-toolchain[tflite]'"


def test_names_shapes_and_types_are_the_files() -> None:
    writer = CASES[0].write("int8")
    for tensor, name in zip(
        writer.tensors, ("serving_default_x:0", "StatefulPartitionedCall:0"), strict=True
    ):
        tensor.name = name
    model = read_tflite(writer.finish(), "net.tflite")
    (x,), (y,) = model.graph.input, model.graph.output
    assert (x.name, y.name) == ("serving_default_x:0", "StatefulPartitionedCall:0")
    for value in (x, y):
        assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [1, 6, 5, 4]
        assert value.type.tensor_type.elem_type == 3  # INT8


def test_reads_operator_code_from_newer_field() -> None:
    """The package tflite reads such a code as ADD; ai-edge-quantizer writes them."""
    writer = _one("TANH")
    writer.deprecated = False
    assert [node.op_type for node in read_tflite(writer.finish(), "net.tflite").graph.node] == ["Tanh"]


def test_names_that_occur_twice_or_not_at_all_become_different_ones() -> None:
    writer = _one()
    for tensor in writer.tensors:
        tensor.name = ""
    model = read_tflite(writer.finish(), "net.tflite")
    assert (model.graph.input[0].name, model.graph.output[0].name) == ("tensor_0", "tensor_1")
    for tensor in writer.tensors:
        tensor.name = "x"
    model = read_tflite(writer.finish(), "net.tflite")
    assert (model.graph.input[0].name, model.graph.output[0].name) == ("x", "x.1")


@pytest.mark.slow
def test_a_shape_that_is_computed_from_another_is_a_constant() -> None:
    """Keras writes the batch of a reshape like this."""
    writer = Writer()
    writer.inputs = [writer.add((1, 4, 6))]
    shape, first, parts = (writer.add((count,), "int32") for count in (3, 1, 2))
    starts, ends, steps = (writer.constant(np.array([number], "int32")) for number in (0, 1, 1))
    rest = writer.constant(np.array([-1], "int32"))
    writer.outputs = [writer.add((1, 24))]
    writer.call("SHAPE", writer.inputs, [shape], "ShapeOptions", OutType=2)
    writer.call("STRIDED_SLICE", [shape, starts, ends, steps], [first], "StridedSliceOptions")
    writer.call("CONCATENATION", [first, rest], [parts], "ConcatenationOptions", Axis=0)
    writer.call("RESHAPE", [writer.inputs[0], parts], writer.outputs)
    model = read_tflite(writer.finish(), "net.tflite")
    assert [node.op_type for node in model.graph.node] == ["Reshape"]
