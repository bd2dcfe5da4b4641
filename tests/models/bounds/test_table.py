"""Every operator that reads integers is in the table, or harmless for a reason."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, defs, helper
from tvm.relax.frontend.onnx import onnx_frontend

from tests.models.bounds.cases import CASES
from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import loaded, refused
from toolchain.lowering.graph.confined import CONFINED
from toolchain.models.bounds import BOUNDS
from toolchain.models.importing.converters import CONVERTERS
from toolchain.models.rewrites import RULES

HARMLESS = {
    "integers are computed with, and address nothing": (
        "Abs Add And ArgMax ArgMin BitCast BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike "
        "Ceil Clip Concat DepthToSpace Einsum Equal Flatten Floor Gemm Greater GreaterOrEqual Hardmax "
        "Identity IsNaN Less LessOrEqual MatMul Max Min Mul Neg Not Or Pow PRelu Relu Shrink Sign "
        "SpaceToDepth Sub Sum Transpose Trilu Where Xor"
    ),
    "quantised values are computed with; no table is looked up": (
        "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger MatMulInteger16 QLinearConv "
        "QLinearMatMul QuantizeLinear"
    ),
    "reduces all values of an axis that a constant names": (
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
        "ReduceSum ReduceSumSquare"
    ),
    "its shapes are constants before it is imported": (
        "AffineGrid CenterCropPad EyeLike DFT STFT Shape Size"
    ),
    "written as operators of the table by its own definition": (
        "Attention NegativeLogLikelihoodLoss RotaryEmbedding SoftmaxCrossEntropyLoss MaxUnpool"
    ),
    "sizes of windows are constants": "BlackmanWindow HammingWindow HannWindow MaxPool",
    "what depends on the data is refused: sequences are written flat, shapes are static": (
        "ConcatFromSequence If Loop NonMaxSuppression NonZero SequenceAt SequenceConstruct "
        "SequenceErase SequenceInsert SequenceLength SplitToSequence Unique Optional "
        "OptionalGetElement OptionalHasElement AllClassNMS Scan"
    ),
    "never trains": "Dropout",
}
KNOWN = {name for names in HARMLESS.values() for name in names.split()}
INTEGERS = {f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (8, 16, 32, 64)}
OPERATORS = sorted(
    set(CONVERTERS) | {name for name in RULES if "." not in name} | set(onnx_frontend._get_convert_map())
)


def reads_integers(operator: str) -> bool:
    """Return whether the newest definition of a standard operator takes an input of integers."""
    try:
        schema = defs.get_schema(operator)
    except defs.SchemaError:
        return False  # another domain's
    constraints = {each.type_param_str: set(each.allowed_type_strs) for each in schema.type_constraints}
    return any(constraints.get(each.type_str, {each.type_str}) & INTEGERS for each in schema.inputs)


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_is_judged(operator: str) -> None:
    if reads_integers(operator):
        assert operator in BOUNDS or operator in KNOWN, (
            "its values may decide an address: add a row, or say why not"
        )


def test_each_operator_has_one_row() -> None:
    assert not KNOWN & set(BOUNDS)
    assert {row for row in BOUNDS if "." not in row} <= set(OPERATORS)
    assert set(OPERATORS) | {"If", "Loop", "Scan"} >= KNOWN


def test_every_row_that_computes_has_a_case() -> None:
    rows = {name.rpartition(".")[2] for name, row in BOUNDS.items() if row.checks or row.otherwise}
    assert rows <= {case.operator for case in CASES}


MOVES = set(
    [
        "take",
        "gather_elements",
        "gather_nd",
        "scatter_elements",
        "scatter_nd",
        "index_tensor",
        "index_put",
        "grid_sample",
        "roi_align",
        "roi_pool",
        "divide",
        "floor_divide",
        "mod",
        "floor_mod",
    ]
)
"""Of Relax: those whose values decide an address or a division."""


def test_importer_output_is_confined() -> None:
    source = inspect.getsource(onnx_frontend)
    ours = Path(inspect.getfile(loaded)).parents[3] / "toolchain" / "models"
    source += "".join(path.read_text() for path in ours.rglob("*.py"))
    written = {each.rpartition(".")[2] for each in re.findall(r"relax\.op\.([a-z_.]+)", source)}
    confined = {name.rpartition(".")[2] for name in CONFINED}
    assert written & MOVES <= confined
    assert confined <= MOVES


@pytest.mark.parametrize(("place", "value"), [(1, 8), (1, -9), (1, 2**32)])
def test_a_constant_out_of_range_is_refused_at_once(place: int, value: int, tmp_path: Path) -> None:
    places = np.array([[0], [1], [2]])
    places[place] = value
    graph = graph_of(
        [helper.make_node("GatherND", ["x", "i"], ["y"], "it")],
        [tensor_info("x", (8, 4))],
        [tensor_info("y", (3, 4))],
        {"i": places},
    )
    error = refused(graph, tmp_path)
    assert (
        f"node 'it' (GatherND) takes indices from -8 to 7, and its constant 'i' holds {value} at [1, 0]"
        in str(error)
    )
    assert error.hint


def test_a_constant_divisor_of_0_is_refused_at_once(tmp_path: Path) -> None:
    graph = graph_of(
        [helper.make_node("Mod", ["x", "d"], ["y"], "it")],
        [tensor_info("x", (3,), TensorProto.INT64)],
        [tensor_info("y", (3,), TensorProto.INT64)],
        {"d": np.array([1, 0, 2])},
    )
    assert "node 'it' (Mod) divides by it, and its constant 'd' holds 0 at [1]" in str(
        refused(graph, tmp_path)
    )


@pytest.mark.parametrize("operator", ["Div", "Mod"])
def test_the_least_integer_is_not_divided_by_onnxruntime(operator: str, tmp_path: Path) -> None:
    graph = graph_of(
        [helper.make_node(operator, ["a", "b"], ["c"], "it"), helper.make_node("Add", ["x", "c"], ["y"])],
        [tensor_info("x", (1,), TensorProto.INT64)],
        [tensor_info("y", (1,), TensorProto.INT64)],
        {"a": np.array([-(2**63)]), "b": np.array([-1])},
    )
    assert f"node 'it' ({operator}) divides constants" in str(refused(graph, tmp_path))


FIXED = [
    ("TopK", [("x", (8,), 1), ("k", (1,), 7)], ["v", "y"], {}),
    ("Slice", [("x", (8,), 1), ("b", (1,), 7), ("e", (1,), 7)], ["y"], {}),
    ("Pad", [("x", (8,), 1), ("p", (2,), 7)], ["y"], {}),
    ("Expand", [("x", (1,), 1), ("s", (1,), 7)], ["y"], {}),
    ("Tile", [("x", (8,), 1), ("n", (1,), 7)], ["y"], {}),
    ("Reshape", [("x", (8,), 1), ("s", (1,), 7)], ["y"], {}),
    ("Resize", [("x", (1, 1, 4, 4), 1), ("", (), 1), ("s", (4,), 1)], ["y"], {}),
    ("OneHot", [("i", (3,), 7), ("d", (), 7), ("v", (2,), 1)], ["y"], {}),
    ("Compress", [("x", (8,), 1), ("c", (8,), 9)], ["y"], {"axis": 0}),
    ("CumSum", [("x", (8,), 1), ("a", (), 7)], ["y"], {}),
    ("Range", [("a", (), 7), ("b", (), 7), ("c", (), 7)], ["y"], {}),
    ("ConstantOfShape", [("s", (1,), 7)], ["y"], {}),
    ("Split", [("x", (8,), 1), ("n", (2,), 7)], ["y", "z"], {}),
    ("Squeeze", [("x", (8, 1), 1), ("a", (1,), 7)], ["y"], {}),
    ("Unsqueeze", [("x", (8,), 1), ("a", (1,), 7)], ["y"], {}),
    ("Col2Im", [("x", (1, 5, 5), 1), ("s", (2,), 7), ("b", (2,), 7)], ["y"], {}),
    ("CumProd", [("x", (8,), 1), ("a", (), 7)], ["y"], {}),
]


@pytest.mark.parametrize(("operator", "inputs", "outputs", "own"), FIXED, ids=[each[0] for each in FIXED])
def test_refuses_computed_value_where_constant_is_required(
    operator: str,
    inputs: list[tuple[str, tuple[int, ...], int]],
    outputs: list[str],
    own: dict[str, Any],
    tmp_path: Path,
) -> None:
    graph = graph_of(
        [helper.make_node(operator, [name for name, *_ in inputs], outputs, "it", **own)],
        [tensor_info(name, shape, code) for name, shape, code in inputs if name],
        [tensor_info(outputs[0], None)],
        {},
        26 if operator == "CumProd" else 21,
    )
    assert refused(graph, tmp_path).hint


def test_every_fixed_input_is_tried() -> None:
    rows = {name for name, row in BOUNDS.items() if row.fixed}
    assert rows - {each[0] for each in FIXED} <= {"Upsample"}  # of opsets that are brought up to date
