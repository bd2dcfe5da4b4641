"""Every operator on an OpenCL device, PoCL, against what onnx and onnxruntime say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper
from scipy import special

from tests.backends.packed.computed import loaded
from tests.e2e.onnx_nodes.cases import Case, node_cases
from tests.e2e.onnx_nodes.judge import BROKEN, REFUSED, compiled_library, judged, run_library
from tests.e2e.onnx_nodes.table import operators
from toolchain import tvm_compat
from toolchain.models.importing.converters import CONVERTERS
from toolchain.models.onnx_graph import CONTROL
from toolchain.models.rewrites import RULES

PARTS = 3
"""So many tests the operators are shared out to: what fails is found in less."""

_CONSTANT = "computed when a network is built"
_SEQUENCE = "taken apart when a network is imported; onnx's tests hand sequences over"
_REWRITTEN = "onnx has no test of it; it becomes operators that are tried here"
WITHOUT_A_CASE = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow", "Constant"), _CONSTANT),
    **dict.fromkeys(("ConstantOfShape", "Range"), _CONSTANT),
    **dict.fromkeys(("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase"), _SEQUENCE),
    **dict.fromkeys(("SequenceInsert", "SequenceLength", "SplitToSequence"), _SEQUENCE),
    **dict.fromkeys(("ConcatFromSequence", "Optional", "OptionalGetElement"), _SEQUENCE),
    "OptionalHasElement": _SEQUENCE,
    "If": "onnx's tests have no inputs left: the branch is known when a network is built",
    **dict.fromkeys(("GlobalLpPool", "MaxRoiPool"), _REWRITTEN),
    **dict.fromkeys(("Imputer", "LinearClassifier", "LinearRegressor"), _REWRITTEN),
    **dict.fromkeys(("Normalizer", "Scaler"), _REWRITTEN),
    **dict.fromkeys(("Cast", "CastLike"), "`test_casts`; onnx's tests are of 8-bit floats and strings first"),
}
"""Operators that the importer takes and no case here is about, and why."""


_NO_CODE = "unsupported operators"
_SHAPE = "makes a tensor whose shape depends on the data"
_NO_REFERENCE = "onnxruntime, which gives the reference, cannot load it"
NOT_COMPARED = {
    **dict.fromkeys(("DeformConv", "ImageDecoder", "TfIdfVectorizer", "ai.onnx.ml.TreeEnsemble"), _NO_CODE),
    "ai.onnx.preview.FlexAttention": _NO_CODE,
    **dict.fromkeys(("NonMaxSuppression", "NonZero", "Unique"), _SHAPE),
    "SwiGLU": _NO_REFERENCE,
    "RoiAlign": _NO_REFERENCE,  # of its newest version; of older ones onnx has no test
}
"""Operators whose case is refused before anything is computed, and what the refusal says."""

REFUSED_ALONE = {
    "test_scan_sum": "scans lengths that are an input, as operator set 8 had it",
    "test_bitcast_bool_to_uint8": _NO_REFERENCE,
}
"""Cases that are refused of operators that have others, and why."""

BY_THEIR_DEFINITION = ("CausalConvWithState", "LinearAttention")
"""Operators that onnxruntime does not know yet: compared is what onnx writes in their place."""


@cache
def cases() -> dict[str, list[Case]]:
    """Return for each operator its first test with something to compute, and its first of truth values."""
    about, found = operators(), dict[str, list[Case]]()
    for case in node_cases():
        operator = about[case.name]
        if case.outside or not case.inputs or case.name in REFUSED_ALONE:
            continue
        if ("_expanded" in case.name) != (operator in BY_THEIR_DEFINITION):
            continue
        kinds = {str(array.dtype) for array in (*case.inputs, *case.outputs)}
        if "float16" in kinds:  # PoCL has no cl_khr_fp16
            continue
        mine = found.setdefault(operator, [])
        if not mine or ("bool" in kinds and len(mine) == 1):
            mine.append(case)
    return found


def first_of_each() -> dict[str, Case]:
    """Return one case of each operator that is imported as itself, and that no other test here is about.

    A driver compiles for a sixth of a second per kernel. So what is written out by other operators before the
    import, which `RULES` has, and second cases are left to the test of every other case.
    """
    elsewhere = {*FUNCTIONS, *COMPOSED, *RULES}
    return {operator: mine[0] for operator, mine in cases().items() if operator not in elsewhere}


def taken() -> set[str]:
    """Return the operators that the importer takes."""
    newest = defs.onnx_opset_version()
    standard = {each.name for each in defs.get_all_schemas() if each.domain == "" and not each.deprecated}
    own = {name for name in standard if name in CONTROL or tvm_compat.onnx_converts(name, newest)}
    return own | set(RULES) | (set(CONVERTERS) & standard)


@pytest.mark.slow
def test_every_operator_that_the_importer_takes_is_tried() -> None:
    missing = {name for name in taken() - set(cases()) if not name.startswith("com.microsoft.")}
    assert {name.removeprefix("ai.onnx.ml.") for name in missing} == set(WITHOUT_A_CASE)
    assert all(name in RULES for name in taken() if name.startswith("com.microsoft.")), _REWRITTEN


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_they_compute_what_onnx_says(part: int) -> None:
    wanted = dict(list(first_of_each().items())[part::PARTS])
    assert refusals(wanted.values()) == {
        wanted[name].name: reason for name, reason in NOT_COMPARED.items() if name in wanted
    }


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(900)
def test_so_do_the_other_cases() -> None:
    firsts = first_of_each()
    others = [case for operator, mine in cases().items() for case in mine[operator in firsts :]]
    assert refusals(others) == {
        cases()[name][0].name: reason for name, reason in NOT_COMPARED.items() if name not in firsts
    }


def refusals(wanted: Iterable[Case], device: str = "opencl") -> dict[str, str]:
    """Judge cases, of which none may be computed wrongly; return which are refused, and the known reason."""
    verdicts = list(judged(list(wanted), device=device))
    assert not [verdict for verdict in verdicts if verdict.verdict in BROKEN]
    known = (_NO_CODE, _SHAPE, _NO_REFERENCE)
    return {
        verdict.case: next((reason for reason in known if reason in verdict.reason), verdict.reason)
        for verdict in verdicts
        if verdict.verdict == REFUSED
    }


Exact = Callable[[np.ndarray], np.ndarray]
# Operator -> attributes, what it is in float64, the largest error allowed in last places: of ours 3 at most
# (tests/backends/packed/loops/test_elementary.py), of the driver's what OpenCL C 1.2, 7.4 allows it.
FUNCTIONS: dict[str, tuple[Exact, float]] = {
    "Exp": (np.exp, 3),
    "Log": (np.log, 3),
    "Sigmoid": (special.expit, 3),
    "Tanh": (np.tanh, 3),
    "Erf": (special.erf, 3),
    "Sqrt": (np.sqrt, 3),
    "Sin": (np.sin, 4),
    "Cos": (np.cos, 4),
    "Tan": (np.tan, 5),
    "Asin": (np.arcsin, 4),
    "Acos": (np.arccos, 4),
    "Atan": (np.arctan, 5),
    "Asinh": (np.arcsinh, 4),
    "Acosh": (np.arccosh, 4),
    "Atanh": (np.arctanh, 5),
    "Reciprocal": (lambda x: 1 / x, 2.5),
    "Abs": (np.abs, 0),
    "Floor": (np.floor, 0),
    "Ceil": (np.ceil, 0),
    "Round": (np.round, 0),
    "Relu": (lambda x: np.where(x < 0, 0, x), 0),
}
# PoCL 3.1's own are wrong there: sin(1e-45) is 0.0078 to it.
NOT_OF_DENORMALS = ("Sin", "Cos", "Tan")
# Of these the sum with 1 or the product rounds as well, and near their zeros that is many last places: what
# is far from 0 is compared, in parts of the value.
COMPOSED: dict[str, Exact] = {
    "Softplus": lambda x: np.logaddexp(0, x),
    "Gelu": lambda x: x * special.ndtr(x),
    "Elu": lambda x: np.where(x < 0, np.expm1(x), x),
    "Selu": lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x),
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}


def numbers() -> np.ndarray:
    """Return float32 numbers of every size, denormals, and what is none; as many as one row of a network."""
    every = np.arange(0, 2**32, 2**32 // 30011, dtype="u8").astype("u4").view("f4")
    near = np.linspace(-110, 110, 4001, dtype="f4")
    special_ones = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 88.72, 88.73]
    return np.concatenate([every, near, np.array(special_ones, "f4")])


def of_functions(model: onnx.ModelProto, array: np.ndarray, folder: Path) -> list[np.ndarray]:
    case = Case("functions", "", model, (array,), (), 0, 0)
    library, _ = compiled_library([(case, loaded(model))], "opencl", folder)
    return run_library(library, [array], "opencl", folder)


def network(nodes: Sequence[onnx.NodeProto], length: int, kinds: Mapping[str, int]) -> onnx.ModelProto:
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, length])
    ends = [helper.make_tensor_value_info(name, kind, [1, length]) for name, kind in kinds.items()]
    graph = helper.make_graph(nodes, "functions", [entry], ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.slow
def test_elementary_functions_everywhere(tmp_path: Path) -> None:
    x = numbers()
    names = [*FUNCTIONS, *COMPOSED]
    nodes = [helper.make_node(name, ["x"], [f"of_{name}"]) for name in names]
    model = network(nodes, x.size, {f"of_{name}": TensorProto.FLOAT for name in names})
    found = of_functions(model, x[None], tmp_path)
    errors = {}
    for name, value in zip(names, found, strict=True):
        with np.errstate(all="ignore"):
            if name in FUNCTIONS:
                exact, allowed = FUNCTIONS[name]
                if name in NOT_OF_DENORMALS:
                    whole = ~(np.abs(x) < np.finfo("f4").tiny) | (x == 0)
                    errors[name] = last_places(value[0][whole], exact(x[whole].astype("f8"))) / allowed
                    continue
                errors[name] = last_places(value[0], exact(x.astype("f8"))) / max(allowed, 0.5)
            else:
                errors[name] = relative(value[0], COMPOSED[name](x.astype("f8"))) / 4e-6
    assert {name: error for name, error in errors.items() if not error <= 1} == {}


def last_places(value: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest error in units of the last place; what is no normal number may be 0."""
    expected = exact.astype("f4")
    error = np.abs(value.astype("f8") - exact) / np.spacing(np.abs(expected)).astype("f8")
    tiny = np.abs(exact) < 2 * np.finfo("f4").tiny
    same = (value == expected) | (np.isnan(value) & np.isnan(expected)) | (tiny & (np.abs(value) < 3e-38))
    return float(np.where(same, 0, np.where(np.isnan(error), np.inf, error)).max())


def relative(value: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest error in parts of the value, or of 1 where that is less."""
    expected = exact.astype("f4")
    error = np.abs(value.astype("f8") - exact) / np.maximum(np.abs(exact), 1)
    same = (value == expected) | (np.isnan(value) & np.isnan(expected))
    return float(np.where(same, 0, np.where(np.isnan(error), np.inf, error)).max())


@pytest.mark.slow
def test_casts(tmp_path: Path) -> None:
    kinds = {"BOOL": "?", "INT8": "i1", "UINT8": "u1", "INT16": "i2", "INT32": "i4", "INT64": "i8"}
    x = np.arange(0, 21, dtype="f4") / 2
    nodes, ends = [], dict[str, int]()
    for name in kinds:
        kind = getattr(TensorProto, name)
        nodes.append(helper.make_node("Cast", ["x"], [name], to=kind))
        nodes.append(helper.make_node("CastLike", [name, "x"], [f"{name}_back"]))
        ends |= {name: kind, f"{name}_back": TensorProto.FLOAT}
    found = iter(of_functions(network(nodes, x.size, ends), x[None], tmp_path))
    for kind in kinds.values():
        there, back = next(found)[0], next(found)[0]
        np.testing.assert_array_equal(there, x.astype(kind))
        np.testing.assert_array_equal(back, x.astype(kind).astype("f4"))
