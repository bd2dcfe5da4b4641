"""Reads a `.tflite` file, a flatbuffer, with the package `tflite`, which is imported here alone.

The package believes the file: offsets may point outside of it, and lengths may be anything. Whatever it then
raises becomes a refusal here, and nothing is read whose size is not bounded by the size of the file.
"""

from __future__ import annotations

import re
import struct
from types import ModuleType
from typing import Any

import numpy as np

from toolchain.errors import UsageError
from toolchain.foreign import shortened
from toolchain.models.reading.formats import is_tflite
from toolchain.models.tflite.network import (
    DTYPES,
    MOST_TENSORS,
    DeclaredTensor,
    TfliteNetwork,
    TfliteOperator,
    checked_tensor,
)
from toolchain.models.tflite.sparse import dense_bytes

# Bounds what a file may ask for by its size: parts of a flatbuffer may share bytes, thousands of times.


class ByteBudget:
    """Budget of bytes that may be read from a file, whose parts may overlap.

    Parameters
    ----------
    origin
        Names the file in errors.
    most
        Bytes in all.
    says, hint
        The error's words.
    """

    def __init__(
        self,
        origin: str,
        most: int,
        says: str = "broken: its parts use the same bytes again and again",
        hint: str = "convert it again",
    ) -> None:
        self.origin, self._left, self._words = origin, most, (f"{origin}: {says}", hint)

    def spend(self, size: int) -> None:
        """Count `size` bytes more.

        Raises
        ------
        UsageError
            They are too many.
        """
        self._left -= size
        if self._left < 0:
            raise UsageError(*self._words)


# Reads the options of an operator, whatever fields their type has.

MOST_NUMBERS = 1024
"""Most elements of a vector of operands, dimensions or options."""


def names_of(codes: type) -> dict[int, str]:
    """Return the name of each code of a schema's enumeration, without what Python adds to the class."""
    return {value: name for name, value in vars(codes).items() if not name.startswith("_")}


def read_options(schema: ModuleType, operator: Any, budget: ByteBudget) -> dict[str, Any]:
    """Return the fields of an operator's options by the schema's names; empty if it has none.

    Parameters
    ----------
    schema
        The package `tflite`.
    operator
        Its view of an operator.
    """
    code = operator.BuiltinOptionsType()
    kind = names_of(schema.BuiltinOptions).get(code, "NONE")
    table = operator.BuiltinOptions()
    if kind == "NONE" or table is None:
        return {}
    options = getattr(schema, kind)()
    options.Init(table.Bytes, table.Pos)
    members = [name for name in vars(type(options)) if name[0].isupper() and name != "Init"]
    fields = [
        name for name in members if not name.startswith("GetRootAs") and "BufferHasIdentifier" not in name
    ]
    vectors = {name.removesuffix("Length") for name in fields if name.endswith("Length")}
    fields_read: dict[str, Any] = {}
    for name in vectors:
        if f"{name}AsNumpy" in fields:
            fields_read[_snake(name)] = numbers(getattr(options, f"{name}AsNumpy")(), budget)
    for name in fields:
        if not any(name.startswith(vector) for vector in vectors):
            fields_read[_snake(name)] = getattr(options, name)()
    return fields_read


def numbers(vector: Any, budget: ByteBudget) -> list[int]:
    """Return a vector of the file; `tflite` gives 0 for one that is absent.

    Raises
    ------
    UsageError
        It is longer than any that is read, or the file's vectors are many times the file.
    """
    if isinstance(vector, int):
        return []
    if len(vector) > MOST_NUMBERS:
        raise UsageError(
            f"{budget.origin}: an operator or a tensor has {len(vector)} operands, dimensions or options; "
            f"at most {MOST_NUMBERS} are read",
            "convert the network with operators of fewer operands, for shorter sequences for example",
        )
    budget.spend(vector.nbytes)
    return [number.item() for number in vector]


def _snake(name: str) -> str:
    """Return a method's name as the schema spells the field: `DilationHFactor` is `dilation_h_factor`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


VERSION = 3
MOST_OPERATORS = 50_000
"""Most operators of a network, as of an ONNX graph with its functions inlined."""

_BROKEN = (struct.error, IndexError, ValueError, OverflowError, TypeError)
_BUILTIN_CODE = 10
"""Offset of `OperatorCode.builtin_code` in a flatbuffer table: field 3."""

_CONTROL = frozenset({"CALL", "CALL_ONCE", "IF", "WHILE", "STABLEHLO_COMPOSITE", "STABLEHLO_WHILE"})
_COPIES, _SPARE = 8, 1 << 20
"""Limit for names and vectors of numbers: this many times the file's size, plus this many bytes."""

_AGAIN = "convert or download it again"


def read_network(data: bytes, origin: str) -> TfliteNetwork:
    """Read the network of a `.tflite` file.

    Raises
    ------
    UsageError
        The file is broken, or holds what no operator table can translate: several subgraphs, control flow,
        operators of its maker's own, types or sparse tensors that are unknown here.
    ImportError
        The package `tflite` is not installed.
    """
    import tflite

    if not is_tflite(data):
        raise UsageError(f"{origin}: not a TensorFlow Lite file, or a truncated one", _AGAIN)
    try:
        return _network(tflite, data, origin)
    except _BROKEN as error:
        raise UsageError(
            f"{origin}: a broken TensorFlow Lite file: its parts point outside of it", _AGAIN
        ) from error


def _network(schema: ModuleType, data: bytes, origin: str) -> TfliteNetwork:
    model = schema.Model.GetRootAs(data, 0)
    if model.Version() != VERSION:
        raise UsageError(
            f"{origin}: version {model.Version()} of TensorFlow Lite's schema; known is {VERSION}", _AGAIN
        )
    budget = ByteBudget(origin, _COPIES * len(data) + _SPARE)
    names = names_of(schema.BuiltinOperator)
    codes = [
        _operator_name(names, model.OperatorCodes(place))
        for place in range(
            _bounded(model.OperatorCodesLength(), MOST_OPERATORS, "kinds of operators", origin)
        )
    ]
    subgraphs = model.SubgraphsLength()
    if subgraphs < 1:
        raise UsageError(f"{origin}: not a network: the file holds no graph", _AGAIN)
    graph = model.Subgraphs(0)
    operators = tuple(
        _operator(schema, codes, place, graph.Operators(place), budget)
        for place in range(_bounded(graph.OperatorsLength(), MOST_OPERATORS, "operators", origin))
    )
    _refuse_calls(operators, subgraphs, origin)
    size = _bounded(graph.TensorsLength(), MOST_TENSORS, "tensors", origin)
    inputs, outputs = (
        tuple(index for index in _indices(vector, size, budget) if index is not None)
        for vector in (graph.InputsAsNumpy(), graph.OutputsAsNumpy())
    )
    types = names_of(schema.TensorType)
    entries = (
        _entry(schema, types, model, data, place, graph.Tensors(place), origin, budget)
        for place in range(size)
    )
    tensors = tuple(checked_tensor(entry, origin, is_input=entry.index in inputs) for entry in entries)
    for operator in operators:
        if any(index is not None and index >= size for index in (*operator.inputs, *operator.outputs)):
            raise UsageError(f"{origin}: broken: {operator} names a tensor that is not there", _AGAIN)
    return TfliteNetwork(tensors, operators, inputs, outputs, len(data))


def _operator_name(names: dict[int, str], code: Any) -> str:
    value = max(_builtin_code(code), code.DeprecatedBuiltinCode())  # older files know the latter only
    if names.get(value) == "CUSTOM":
        custom = code.CustomCode() or b""
        return f"custom operator {shortened(custom.decode(errors='replace'))!r}"
    return names.get(value, f"operator of code {value}")


def _builtin_code(code: Any) -> int:
    """Return an operator's code; `tflite` gives 0 for codes below 127 in files that lack the older field."""
    table = code._tab
    place = table.Offset(_BUILTIN_CODE)
    return int(struct.unpack_from("<i", table.Bytes, table.Pos + place)[0]) if place else 0


def _operator(
    schema: ModuleType, codes: list[str], place: int, operator: Any, budget: ByteBudget
) -> TfliteOperator:
    name = codes[operator.OpcodeIndex()]
    inputs = _indices(operator.InputsAsNumpy(), None, budget)
    outputs = _indices(operator.OutputsAsNumpy(), None, budget)
    kept = tuple(index for index in outputs if index is not None)
    return TfliteOperator(place, name, inputs, kept, read_options(schema, operator, budget))


def _entry(
    schema: ModuleType,
    types: dict[int, str],
    model: Any,
    data: bytes,
    place: int,
    tensor: Any,
    origin: str,
    budget: ByteBudget,
) -> DeclaredTensor:
    rules, name = tensor.Quantization(), tensor.Name() or b""
    kind, shape = types.get(tensor.Type(), f"type {tensor.Type()}"), numbers(tensor.ShapeAsNumpy(), budget)
    stored, sparsity, why = _stored(model, data, tensor.Buffer(), origin), tensor.Sparsity(), ""
    if sparsity is not None and stored is not None and kind in DTYPES and all(size > 0 for size in shape):
        try:
            item = np.dtype(DTYPES[kind]).itemsize
            stored, sparsity = dense_bytes(schema, sparsity, stored, shape, item, len(data)), None
        except ValueError as error:
            why = str(error)
    budget.spend(len(name) + (0 if rules is None else 4 * rules.ScaleLength() + 8 * rules.ZeroPointLength()))
    return DeclaredTensor(
        index=place,
        name=name.decode(errors="replace"),
        shape=tuple(shape),
        open_shape=tuple(numbers(tensor.ShapeSignatureAsNumpy(), budget)),
        type=kind,
        sparse=sparsity is not None,
        sparse_problem=why,
        variable=bool(tensor.IsVariable()),
        data=stored,
        scale=None if rules is None else np.array(rules.ScaleAsNumpy(), np.float32).reshape(-1),
        has_scale=rules is not None and rules.ScaleLength() > 0,
        zero=np.zeros(0, np.int64)
        if rules is None or rules.ZeroPointIsNone()
        else np.array(rules.ZeroPointAsNumpy(), np.int64).reshape(-1),
        axis=0 if rules is None else int(rules.QuantizedDimension()),
        custom=rules is not None and rules.DetailsType() != 0,
    )


def _stored(model: Any, data: bytes, index: int, origin: str) -> memoryview | None:
    """Return the bytes of a buffer; None if it is empty, as that of every computed tensor."""
    if index >= model.BuffersLength():
        raise UsageError(f"{origin}: broken: a tensor names buffer {index}, which is not there", _AGAIN)
    buffer = model.Buffers(index)
    if not buffer.DataIsNone() and buffer.DataLength():
        return memoryview(np.ascontiguousarray(buffer.DataAsNumpy()).data).cast("B")
    start, size = buffer.Offset(), buffer.Size()  # behind the flatbuffer, in files of 2 GB and more
    if start <= 1 or not size:
        return None
    if start + size > len(data):
        raise UsageError(f"{origin}: broken: buffer {index} ends outside of the file", _AGAIN)
    return memoryview(data)[start : start + size]


def _bounded(count: int, most: int, what: str, origin: str) -> int:
    if count > most:
        raise UsageError(f"{origin} has {count} {what}; at most {most} are read", _AGAIN)
    return count


def _indices(vector: Any, tensors: int | None, budget: ByteBudget) -> tuple[int | None, ...]:
    indices = numbers(vector, budget)
    if any(index < -1 or (tensors is not None and not 0 <= index < tensors) for index in indices):
        raise ValueError("an index of no tensor")
    return tuple(None if index == -1 else index for index in indices)


def _refuse_calls(operators: tuple[TfliteOperator, ...], subgraphs: int, origin: str) -> None:
    for operator in operators:
        if operator.name in _CONTROL:
            raise UsageError(
                f"{origin}: {operator} calls another graph of the file; control flow cannot be built",
                "convert the network again without loops and branches, one file for each part",
            )
    if subgraphs > 1:
        raise UsageError(
            f"{origin} holds {subgraphs} graphs (signatures); one is read",
            "convert each signature to a file of its own",
        )
