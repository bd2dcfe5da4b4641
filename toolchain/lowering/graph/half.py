"""Converts a network to float16 products.

Inputs and outputs of the network keep their types. Matrix products and convolutions multiply float16 and are
declared to sum in float32; code generators decide how much of a sum may be float16. Element-wise operators
after them compute in float32 and round once at the end, since they are fused. Max pooling and operators that
only move values work on float16. All others (softmax, normalisations, sums over many values, and operators
that read their results) compute in float32, with their operands cast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.models.multi_shape import entries

HALF, FULL = "float16", "float32"

_CONVOLUTION = ("strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_layout")
_TRANSPOSED = (*_CONVOLUTION, "output_padding")
# Operator -> its constructor, and its attributes.
PRODUCTS: dict[str, tuple[Callable[..., relax.Expr], tuple[str, ...]]] = {
    "relax.matmul": (relax.op.matmul, ()),
    "relax.nn.conv1d": (relax.op.nn.conv1d, _CONVOLUTION),
    "relax.nn.conv2d": (relax.op.nn.conv2d, _CONVOLUTION),
    "relax.nn.conv3d": (relax.op.nn.conv3d, _CONVOLUTION),
    "relax.nn.conv1d_transpose": (relax.op.nn.conv1d_transpose, _TRANSPOSED),
    "relax.nn.conv2d_transpose": (relax.op.nn.conv2d_transpose, _TRANSPOSED),
    "relax.nn.conv3d_transpose": (relax.op.nn.conv3d_transpose, _TRANSPOSED),
}
MOVING = frozenset(
    "relax." + name
    for name in (
        "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "nn.pad", "concat", "split", "stack", "reshape",
        "flatten", "squeeze", "expand_dims", "permute_dims", "strided_slice", "broadcast_to", "repeat",
        "tile", "flip", "layout_transform",
    )
)  # fmt: skip
"""Operators that work on float16 if all their operands but constants are; they do not round."""
POINTWISE = frozenset(
    "relax." + name
    for name in (
        "add", "subtract", "multiply", "divide", "maximum", "minimum", "negative", "abs", "clip", "sigmoid",
        "tanh", "erf", "nn.relu", "nn.leakyrelu", "nn.prelu", "nn.silu", "nn.gelu", "nn.gelu_tanh",
        "nn.softplus", "nn.selu",
    )
)  # fmt: skip
"""Operators that compute in float32; their result is float16 if one of their operands is."""


ROUNDING = frozenset({"relax.quantize", "relax.round"})
KEEPING = frozenset(
    "relax." + name for name in ("astype", "add", "subtract", "maximum", "minimum", "reshape", "permute_dims")
)
"""Operators whose result is integral, in any type, if their first operand is."""


def halved(module: tvm.ir.IRModule, origin: str) -> tvm.ir.IRModule:
    """Return a module whose functions `main`, one for each shape, have float16 products.

    Raises
    ------
    UsageError
        A constant is beyond float16's range.
    """
    for name in entries(module):
        module = _Halved(module, origin, name).run()
    return module


class _Halved:
    """Builds the new network.

    Attributes
    ----------
    values
        Variable of the old network -> dtype -> its value in the new network.
    half
        Variables whose values are stored as float16.
    uses
        Variable of the old network -> number of times it is read.
    rounded
        Variables computed from integers, or rounded to integers directly or after element-wise operators.
        They stay float32: sums of integers are exact in it, and exceed float16's range.
    largest
        Largest constant beyond float16's range; 0 if there is none.
    """

    def __init__(self, module: tvm.ir.IRModule, origin: str, name: str) -> None:
        self.module, self.origin, self.name = module, origin, name
        self.rest = {var: func for var, func in module.functions.items() if var.name_hint != name}
        self.builder = relax.BlockBuilder(tvm.IRModule(self.rest, attrs=module.attrs))
        self.values: dict[relax.Var, dict[str, relax.Expr]] = {}
        self.half: set[relax.Var] = set()
        self.uses: Counter[relax.Var] = Counter()
        self.rounded: set[relax.Var] = set()
        self.largest = 0.0

    def run(self) -> tvm.ir.IRModule:
        main = self.module[self.name]
        self.values = {param: {_dtype(param): param} for param in main.params}
        bindings = [binding for block in main.body.blocks for binding in block.bindings]
        self.uses = Counter(var for each in bindings for var in _variables(each.value))
        self.uses.update(_variables(main.body.body))
        self.rounded = _rounded(bindings) | _of_integers(bindings)
        with self.builder.function(self.name, list(main.params), dict(main.attrs or {})):
            with self.builder.dataflow():
                for binding in bindings:
                    self._binding(binding.var, binding.value)
                result = self.builder.emit_output(self._result(main.body.body))
            self.builder.emit_func_output(result)
        if self.largest:  # raised only here, since TVM's builder must not be left by an exception
            raise UsageError(
                f"--dtype float16: {self.origin} has a constant of {self.largest:g}; float16 ends at 65504",
                "use --dtype float32",
            )
        return self.builder.finalize()

    def _result(self, value: relax.Expr) -> relax.Expr:
        """Return the network's result with its old types."""
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._result(each) for each in value.fields])
        return self._as(value, HALF if _dtype(value) == HALF else FULL)

    def _binding(self, var: relax.Var, value: relax.Expr) -> None:
        name = getattr(value.op, "name", "") if isinstance(value, relax.Call) else ""
        if name in PRODUCTS and _dtype(var) == FULL and var in self.rounded:
            self._keep(var, self._call(value, FULL), half=False)
        elif name in PRODUCTS and _dtype(var) == FULL:
            make, attributes = PRODUCTS[name]
            given = {key: getattr(value.attrs, key) for key in attributes}
            operands = (self._as(each, HALF) for each in value.args)
            self._keep(var, make(*operands, **given, out_dtype=FULL), half=True)
        elif isinstance(value, relax.Call) and name in MOVING:
            half = {self._is_half(each) for each in _variables(value)} == {True}
            self._keep(var, self._call(value, HALF if half else FULL), HALF if half else "", half=half)
        elif isinstance(value, relax.TupleGetItem):
            half = self._is_half(value.tuple_value)
            self._keep(var, self._as(value, ""), HALF if half else "", half=half)
        elif isinstance(value, relax.Call):
            pointwise = name in POINTWISE or (name == "relax.call_tir" and _same_shape(var, value))
            half = pointwise and _dtype(var) == FULL and any(map(self._is_half, value.args))
            self._keep(var, self._call(value, FULL), half=half)
        else:
            self._keep(var, self._as(value, FULL), half=False)

    def _keep(self, var: relax.Var, value: relax.Expr, dtype: str = "", *, half: bool) -> None:
        """Store a variable's value with its dtype; empty: the variable's old dtype."""
        self.values[var] = {dtype or _dtype(var): self.builder.emit(value)}
        if half:
            self.half.add(var)
            if self.uses[var] > 1:  # a single reader may be fused into the same function
                self.values[var] = {HALF: self._as(var, HALF)}

    def _is_half(self, value: relax.Expr) -> bool:
        if isinstance(value, relax.Tuple):
            return any(map(self._is_half, value.fields))
        return isinstance(value, relax.Var) and value in self.half

    def _call(self, call: relax.Call, dtype: str) -> relax.Call:
        arguments = [self._as(each, dtype) for each in call.args]
        return relax.Call(call.op, arguments, call.attrs, call.ty_args)

    def _as(self, value: relax.Expr, dtype: str) -> relax.Expr:
        """Return a value of the old network with its floats converted to `dtype`."""
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._as(each, dtype) for each in value.fields])
        if isinstance(value, relax.TupleGetItem):
            own = HALF if self._is_half(value.tuple_value) else FULL
            return relax.TupleGetItem(self._as(value.tuple_value, own), value.index)
        if isinstance(value, GenericConst):
            return self._constant(value, dtype)
        if not isinstance(value, relax.Var) or value not in self.values:
            return value
        forms = self.values[value]
        own = next(iter(forms))
        if own not in (HALF, FULL):
            return forms[own]
        if isinstance(value.ty, relax.TupleType) and dtype != own:
            parts = [relax.TupleGetItem(forms[own], place) for place in range(len(value.ty.fields))]
            return relax.Tuple([self.builder.emit(relax.op.astype(part, dtype)) for part in parts])
        if dtype not in forms:
            forms[dtype] = self.builder.emit(relax.op.astype(forms[own], dtype))
        return forms[dtype]

    def _constant(self, value: GenericConst, dtype: str) -> relax.Expr:
        array: Array = value.value.numpy()
        if str(array.dtype) != FULL or dtype != HALF:
            return value
        with np.errstate(over="ignore"):
            rounded = array.astype(np.float16)
        if np.any(np.isinf(rounded) & np.isfinite(array)):
            self.largest = max(self.largest, float(np.abs(array[np.isfinite(array)]).max()))
        return relax.const(rounded, HALF)


def _of_integers(bindings: Sequence[relax.Binding]) -> set[relax.Var]:
    """Return the variables whose values are integral because their first operand's are."""
    found: set[relax.Var] = set()
    for binding in bindings:
        name = getattr(getattr(binding.value, "op", None), "name", "")
        first = next(_variables(binding.value), None)
        integers = first in found or (first is not None and "int" in _dtype(first))
        if name in ROUNDING or (integers and name in {*PRODUCTS, *KEEPING}):
            found.add(binding.var)
    return found


def _rounded(bindings: Sequence[relax.Binding]) -> set[relax.Var]:
    found: set[relax.Var] = set()
    for binding in reversed(bindings):
        name = getattr(getattr(binding.value, "op", None), "name", "")
        if name in ROUNDING or (name in POINTWISE and binding.var in found):
            found.update(_variables(binding.value))
    return found


def _variables(value: relax.Expr) -> Iterator[relax.Var]:
    """Yield the variables in a binding's value, once for each occurrence."""
    if isinstance(value, relax.Var):
        yield value
    elif isinstance(value, relax.Tuple):
        for each in value.fields:
            yield from _variables(each)
    elif isinstance(value, relax.TupleGetItem):
        yield from _variables(value.tuple_value)
    elif isinstance(value, relax.Call):
        for each in value.args:
            yield from _variables(each)


def _dtype(value: relax.Expr) -> str:
    """Return the dtype of a tensor; empty for other values."""
    return str(value.ty.dtype) if isinstance(value.ty, relax.TensorType) else ""


def _same_shape(var: relax.Var, call: relax.Call) -> bool:
    """Whether a function's call (made for ONNX's Clip) has a result of its first operand's shape."""
    first = call.args[1].fields[0]
    shapes = [getattr(each.ty, "shape", None) for each in (var, first)]
    return None not in shapes and str(shapes[0]) == str(shapes[1])
