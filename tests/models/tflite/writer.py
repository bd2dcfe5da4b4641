"""Writes `.tflite` files for tests, with the schema's own builder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES = {
    "bool": "BOOL",
    "float16": "FLOAT16",
    "float32": "FLOAT32",
    "int4": "INT4",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "complex64": "COMPLEX64",
}


@dataclass
class Written:
    """A tensor to write; `scale` may be one number or one for each index of `axis`.

    Attributes
    ----------
    buffer
        The buffer with its bytes; None: its own.
    """

    shape: Sequence[int]
    dtype: str = "float32"
    data: np.ndarray | None = None
    scale: Any = None
    zero: Any = 0
    axis: int = 0
    name: str | None = None
    signature: Sequence[int] = ()
    sparse: bool = False
    rows: tuple[Sequence[int], Sequence[int]] = ()  # type: ignore[assignment]  # begins, indices
    block: int = 0
    variable: bool = False
    buffer: int | None = None


@dataclass
class Writer:
    """A file in the making; `add` puts tensors into it, `call` operators."""

    tensors: list[Written] = field(default_factory=list)
    calls: list[tuple[str, Sequence[int], Sequence[int], str, dict[str, Any]]] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    subgraphs: int = 1
    repeated: int = 0
    """How many more tensors are the first one again, at its place in the file."""

    deprecated: bool = True
    """Whether operators have their codes in the field that older readers know, too."""

    def add(self, *args: Any, **named: Any) -> int:
        """Add a tensor; return its index. Arguments are those of `Written`."""
        self.tensors.append(Written(*args, **named))
        return len(self.tensors) - 1

    def constant(self, array: np.ndarray, **named: Any) -> int:
        """Add a stored tensor."""
        return self.add(array.shape, array.dtype.name, array, **named)

    def call(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], table: str = "", **options: Any
    ) -> None:
        """Add an operator; options are named as in the schema, such as `StrideH`."""
        self.calls.append((name, inputs, outputs, table, options))

    def finish(self) -> bytes:
        """Return the file."""
        b = flatbuffers.Builder(1024)
        buffers = [self._buffer(b, None), *(self._buffer(b, tensor.data) for tensor in self.tensors)]
        places = [self._tensor(b, place) for place in range(len(self.tensors))]
        tensors = _tables(b, [*places, *places[:1] * self.repeated])
        names = list(dict.fromkeys(call[0] for call in self.calls))
        codes = [self._code(b, name) for name in names]
        calls = _tables(b, [self._operator(b, names, call) for call in self.calls])
        inputs, outputs = _integers(b, self.inputs), _integers(b, self.outputs)
        tflite.SubGraphStart(b)
        tflite.SubGraphAddTensors(b, tensors)
        tflite.SubGraphAddInputs(b, inputs)
        tflite.SubGraphAddOutputs(b, outputs)
        tflite.SubGraphAddOperators(b, calls)
        graph = tflite.SubGraphEnd(b)
        graphs, codes, buffers = _tables(b, [graph] * self.subgraphs), _tables(b, codes), _tables(b, buffers)
        tflite.ModelStart(b)
        tflite.ModelAddVersion(b, 3)
        tflite.ModelAddOperatorCodes(b, codes)
        tflite.ModelAddSubgraphs(b, graphs)
        tflite.ModelAddBuffers(b, buffers)
        b.Finish(tflite.ModelEnd(b), b"TFL3")
        return bytes(b.Output())

    def _buffer(self, b: Any, data: np.ndarray | None) -> Any:
        vector = None if data is None else b.CreateByteVector(np.ascontiguousarray(data).tobytes())
        tflite.BufferStart(b)
        if vector is not None:
            tflite.BufferAddData(b, vector)
        return tflite.BufferEnd(b)

    def _tensor(self, b: Any, place: int) -> Any:
        tensor = self.tensors[place]
        name = b.CreateString(f"t{place}" if tensor.name is None else tensor.name)
        shape, signature = _integers(b, tensor.shape), _integers(b, tensor.signature)
        rule = None
        if tensor.scale is not None:
            scale = b.CreateNumpyVector(np.atleast_1d(np.array(tensor.scale, "<f4")))
            zeros = np.broadcast_to(np.array(tensor.zero, "<i8"), np.atleast_1d(tensor.scale).shape)
            zero = b.CreateNumpyVector(np.ascontiguousarray(zeros))
            tflite.QuantizationParametersStart(b)
            tflite.QuantizationParametersAddScale(b, scale)
            tflite.QuantizationParametersAddZeroPoint(b, zero)
            tflite.QuantizationParametersAddQuantizedDimension(b, tensor.axis)
            rule = tflite.QuantizationParametersEnd(b)
        sparsity = None
        if tensor.sparse:
            sparsity = self._sparsity(b, tensor)
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, shape)
        tflite.TensorAddType(b, getattr(tflite.TensorType, TYPES[tensor.dtype]))
        tflite.TensorAddBuffer(b, place + 1 if tensor.buffer is None else tensor.buffer)
        tflite.TensorAddName(b, name)
        tflite.TensorAddIsVariable(b, tensor.variable)
        if rule is not None:
            tflite.TensorAddQuantization(b, rule)
        if sparsity is not None:
            tflite.TensorAddSparsity(b, sparsity)
        if tensor.signature:
            tflite.TensorAddShapeSignature(b, signature)
        return tflite.TensorEnd(b)

    def _sparsity(self, b: Any, tensor: Written) -> Any:
        """Write compressed rows: a dense dimension, one of indices, and blocks of columns if there are."""
        levels = []
        if tensor.rows:
            vectors = []
            for values in tensor.rows:
                made = _integers(b, values)
                tflite.Int32VectorStart(b)
                tflite.Int32VectorAddValues(b, made)
                vectors.append(tflite.Int32VectorEnd(b))
            tflite.DimensionMetadataStart(b)
            tflite.DimensionMetadataAddFormat(b, tflite.DimensionType.DENSE)
            tflite.DimensionMetadataAddDenseSize(b, tensor.shape[0])
            levels.append(tflite.DimensionMetadataEnd(b))
            tflite.DimensionMetadataStart(b)
            tflite.DimensionMetadataAddFormat(b, tflite.DimensionType.SPARSE_CSR)
            tflite.DimensionMetadataAddArraySegmentsType(b, tflite.SparseIndexVector.Int32Vector)
            tflite.DimensionMetadataAddArraySegments(b, vectors[0])
            tflite.DimensionMetadataAddArrayIndicesType(b, tflite.SparseIndexVector.Int32Vector)
            tflite.DimensionMetadataAddArrayIndices(b, vectors[1])
            levels.append(tflite.DimensionMetadataEnd(b))
            if tensor.block:
                tflite.DimensionMetadataStart(b)
                tflite.DimensionMetadataAddFormat(b, tflite.DimensionType.DENSE)
                tflite.DimensionMetadataAddDenseSize(b, tensor.block)
                levels.append(tflite.DimensionMetadataEnd(b))
        order = _integers(b, range(len(levels)))
        blocks = _integers(b, [1] if tensor.block else [])
        tables = _tables(b, levels)
        tflite.SparsityParametersStart(b)
        if levels:
            tflite.SparsityParametersAddTraversalOrder(b, order)
            tflite.SparsityParametersAddBlockMap(b, blocks)
            tflite.SparsityParametersAddDimMetadata(b, tables)
        return tflite.SparsityParametersEnd(b)

    def _code(self, b: Any, name: str) -> Any:
        custom = b.CreateString(name.removeprefix("CUSTOM:")) if name.startswith("CUSTOM:") else None
        value = getattr(tflite.BuiltinOperator, "CUSTOM" if custom is not None else name)
        tflite.OperatorCodeStart(b)
        tflite.OperatorCodeAddBuiltinCode(b, value)
        if self.deprecated:
            tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(value, 127))
        tflite.OperatorCodeAddVersion(b, VERSIONS.get(name, 1))
        if custom is not None:
            tflite.OperatorCodeAddCustomCode(b, custom)
        return tflite.OperatorCodeEnd(b)

    def _operator(self, b: Any, names: list[str], call: Any) -> Any:
        name, given, made, table, options = call
        inputs, outputs = _integers(b, given), _integers(b, made)
        found = None
        if table:
            vectors = {key: _integers(b, value) for key, value in options.items() if isinstance(value, list)}
            getattr(tflite, f"{table}Start")(b)
            for key, value in options.items():
                getattr(tflite, f"{table}Add{key}")(b, vectors.get(key, value))
            found = getattr(tflite, f"{table}End")(b)
        tflite.OperatorStart(b)
        tflite.OperatorAddOpcodeIndex(b, names.index(name))
        tflite.OperatorAddInputs(b, inputs)
        tflite.OperatorAddOutputs(b, outputs)
        if found is not None:
            tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, table))
            tflite.OperatorAddBuiltinOptions(b, found)
        return tflite.OperatorEnd(b)


VERSIONS = {"BATCH_MATMUL": 4, "BROADCAST_TO": 2, "FULLY_CONNECTED": 4, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3}
"""Versions that the judge asks for where 1 has no integers."""


def _tables(b: Any, tables: Sequence[Any]) -> Any:
    b.StartVector(4, len(tables), 4)
    for table in reversed(tables):
        b.PrependUOffsetTRelative(table)
    return b.EndVector()


def _integers(b: Any, values: Sequence[int]) -> Any:
    return b.CreateNumpyVector(np.array(values, "<i4"))
