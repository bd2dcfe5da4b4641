"""Loads a source as a Model; every command uses this function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx import numpy_helper

from toolchain.arrays import Array
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.foreign import first_line
from toolchain.models.bounds import with_checks
from toolchain.models.deviation import Ends
from toolchain.models.folding.fold import fold
from toolchain.models.folding.folded import Folded
from toolchain.models.importing.importer import (
    as_float32,
    check_compiles,
    check_element_types,
    holds_float16,
    import_module,
    output_specs,
)
from toolchain.models.options import AFFINE, POWERS_OF_TWO, ModelOptions
from toolchain.models.output_kinds import joined_parts, softmax_outputs
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.prepare import Prepared, prepare, with_output_types
from toolchain.models.preparing.tensor_types import check_not_empty, input_specs
from toolchain.models.preparing.validity import check_valid
from toolchain.models.proof import ALIKE, ALIKE_IN_HALVES, check_alike
from toolchain.models.quantising import affine_quantiser as affine
from toolchain.models.quantising import shift_quantiser as powers_of_two
from toolchain.models.quantising.result import Quantised
from toolchain.models.reading.source import Source, is_zoo, read_source
from toolchain.models.rewrites import rewrite
from toolchain.models.rewrites.quantised.groups import fold_in_groups
from toolchain.models.rounding import Rounding, Ties, find_rounding, find_ties
from toolchain.models.samples import samples, sorts_for
from toolchain.models.spec import TensorSpec, check_types

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Model:
    """A network, ready to be tuned and built.

    Attributes
    ----------
    name
        Short name, for people and files.
    source
        `zoo:NAME` or the file's absolute path.
    onnx
        The graph from which the expected output is computed: the file's as it came, with its weights inside
        and only the requested outputs, or the quantised one.
    frozen
        Values of the graph's inputs that are constants here.
    module
        The Relax module to build; weights are constants, the i-th parameter of `main` is `inputs[i]`.
    inputs, outputs
        In the order of the graph, under their ONNX names.
    sha256
        Of the file and its external data, or of the zoo's graph.
    softmax_outputs
        Outputs that hold probabilities along their last dimension.
    joined
        The parts of which outputs are joined, by output.
    options
        The options it was loaded with.
    quantised
        The result of quantising, None without it.
    rounding
        Where the network rounds to integers with scales that are no powers of two; None if nowhere.
    judged
        Description of `onnx` for users: the file itself, a translation, or a quantised form.
    ties
        Input -> equal and extreme values that samples must contain.
    others
        The same network in smaller shapes, whose functions are in `module`, too; see `models.multi_shape`.
    """

    name: str
    source: str
    onnx: onnx.ModelProto
    frozen: Mapping[str, Array]
    module: tvm.ir.IRModule
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    sha256: str
    softmax_outputs: frozenset[str]
    options: ModelOptions
    quantised: Quantised | None = None
    rounding: Rounding | None = None
    joined: Mapping[str, Ends] = field(default_factory=dict)
    judged: str = "the file as it is given"
    ties: Mapping[str, Ties] = field(default_factory=dict)
    others: tuple[Model, ...] = ()

    @property
    def shapes(self) -> tuple[Model, ...]:
        """The network in each of its shapes, the largest first: this model and `others`."""
        return (self, *self.others)

    @property
    def integral(self) -> bool:
        """Whether the network multiplies 8-bit integers."""
        return self.rounding is not None


@dataclass(frozen=True)
class FoldedSource:
    """A source that was read, prepared and folded: the first half of loading a network.

    Attributes
    ----------
    prepared
        The file's graph, the same in the operators of today, and the constants among its inputs.
    grouped, folded
        The folded graph with groups of integers, and the same with rewritten operators.
    """

    source: Source
    prepared: Prepared
    grouped: Folded
    folded: Folded

    @cached_property
    def typed(self) -> tuple[onnx.ModelProto, tuple[TensorSpec, ...]]:
        """The folded graph with its tensors' shapes, and its inputs, if code can be made of their types."""
        return _typed(self.folded, self.source.origin)


def fold_source(source: str, options: ModelOptions) -> FoldedSource:
    """Read, prepare and fold a source.

    Raises
    ------
    UsageError
        For the reasons listed at `load_model`.
    """
    network = read_source(source, options)
    prepared = prepare(network, options)
    check_valid(prepared.static, network.origin)
    return FoldedSource(network, prepared, *_folded(prepared.static, network.origin, prepared.frozen))


def check_source(source: str, options: ModelOptions) -> FoldedSource | None:
    """Refuse a file that cannot be compiled, as `load_model` does, before slow steps begin.

    Problems that only the import to Relax finds are left to `load_model`: this function does not import TVM,
    and does not build networks of the zoo.

    Returns
    -------
    FoldedSource or None
        The state from which `load_model` continues, in the first shape; None for a network of the zoo.

    Raises
    ------
    UsageError
        For the reasons listed at `load_model`.
    """
    if is_zoo(source):
        return None
    half_loaded = fold_source(source, options.each()[0])
    with_checks(half_loaded.typed[0], half_loaded.source.origin)  # refuses constants outside of their bounds
    return half_loaded


def load_model(source: str, options: ModelOptions, half_loaded: FoldedSource | None = None) -> Model:
    """Load `zoo:NAME` (or the bare name) or the path of an `.onnx` or `.tflite` file.

    Parameters
    ----------
    half_loaded
        The answer of `check_source` for the same source and options, so that nothing is folded twice.

    Raises
    ------
    UsageError
        The network does not exist, the file is unreadable or invalid, a shape is open, or an operator is
        unsupported.
    """
    half_loaded = half_loaded or fold_source(source, options)
    network, (given, _static, frozen) = half_loaded.source, half_loaded.prepared
    judged = network.judged
    if network.proto.functions and not given.functions:
        judged = "the file with its functions written out, since --outputs names a tensor inside one"
    integers: Quantised | None = None
    if options.quantizer in AFFINE:
        integers, judged = quantised_for_cpus(half_loaded, options)
        grouped, folded = _folded(integers.graph, network.origin, {})
        graph, inputs = _typed(folded, network.origin)
    else:
        grouped, (graph, inputs) = half_loaded.grouped, half_loaded.typed
    computed = _in_float32(graph, network.origin)
    if options.quantizer in POWERS_OF_TWO:
        integers = powers_of_two.quantise(computed, options.quantizer, options.calibration, network.origin)
        judged = _integers_of(half_loaded, computed, options)
        computed = integers.graph
    module = import_module(computed, network.origin)
    outputs = output_specs(graph, module, network.origin)
    check_types(outputs, network.origin)
    return Model(
        name=network.name,
        source=network.origin,
        onnx=integers.graph if integers else with_output_types(given, graph),
        frozen={} if integers else frozen,  # constants of the quantised graph
        quantised=integers,
        module=module,
        inputs=inputs,
        outputs=outputs,
        sha256=network.sha256,
        softmax_outputs=softmax_outputs(graph),
        options=options,
        joined=joined_parts(graph),
        judged=judged,
        ties=find_ties(grouped.model),
        rounding=None if options.quantizer in POWERS_OF_TWO else find_rounding(grouped.model),
    )


def quantised_for_cpus(half_loaded: FoldedSource, options: ModelOptions) -> tuple[Quantised, str]:
    """Return the quantised form of a folded float graph, in QDQ form, and its description for users.

    Raises
    ------
    UsageError
        The graph cannot be quantised, or the images for calibration do not fit.
    ToolchainError
        Preparing changed what the network computes.
    """
    origin = half_loaded.source.origin
    floats = _in_float32(infer_shapes(half_loaded.grouped.model, origin), origin)
    integers = affine.quantise(floats, options.quantizer, options.calibration, origin)
    return integers, _integers_of(half_loaded, floats, options)


def _integers_of(half_loaded: FoldedSource, floats: onnx.ModelProto, options: ModelOptions) -> str:
    """Return a description of what the reference of a quantised network is computed from.

    The integers are made from a graph that we prepared, and are the reference themselves: so the floats
    before them are compared with the file's.

    Raises
    ------
    ToolchainError
        Preparing changed what the network computes.
    """
    network, (given, _static, frozen) = half_loaded.source, half_loaded.prepared
    integers = f"{network.judged}, in the integers of --quantizer {options.quantizer}"
    half = holds_float16(given)
    why, unlike = "", None
    specs = input_specs(floats)
    for sort in sorts_for(specs):
        try:
            why = check_alike(
                given,
                floats,
                samples(specs, 0, sort),
                frozen,
                "preparing it",
                network.origin,
                ALIKE_IN_HALVES if half else ALIKE,
                joined=joined_parts(floats),
                softmax_outputs=softmax_outputs(floats),
            )
        except ToolchainError as error:
            if not half:
                raise
            # A network may amplify the rounding of the file's float16 for one sample; a fault shows in all.
            unlike = unlike or error
            continue
        if not why:
            return f"{integers}, made from floats that are the file's"
    if unlike:
        raise unlike
    return f"{integers}; whether their floats are the file's is not known: onnxruntime said {why}"


def _in_float32(graph: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Return a graph with float32 in place of float16, and with its tensors' shapes."""
    full = as_float32(graph)
    return graph if full is graph else infer_shapes(full, origin)


def _typed(folded: Folded, origin: str) -> tuple[onnx.ModelProto, tuple[TensorSpec, ...]]:
    """Return a folded graph with its tensors' shapes, and its inputs, if code can be made of their types."""
    graph = infer_shapes(folded.model, origin)
    check_not_empty(graph, origin)
    inputs = input_specs(graph)
    check_types(inputs, origin)
    check_element_types(graph, origin)
    return graph, inputs


def _folded(static: onnx.ModelProto, origin: str, frozen: Mapping[str, Array]) -> tuple[Folded, Folded]:
    """Return the folded graph with groups of integers, and the same with rewritten operators."""
    grouped = fold_in_groups(static, origin, frozen)
    folded = rewrite(grouped, origin)
    check_compiles(folded, static, origin)
    return grouped, folded


# Writes a model as one `.onnx` file.


def export_model(source: str, options: ModelOptions, path: Path) -> Quantised | None:
    """Write the static graph of `source` to `path` atomically, with its weights inside.

    The graph is cut as `options` say, and constant inputs become stored tensors; other nodes are unchanged.
    A zoo network's file has the same SHA-256 as the network itself. A quantised network is written in QDQ
    form, for other programs too.

    Returns
    -------
    Quantised or None
        The integers that were written; None for a network in floats.

    Raises
    ------
    UsageError
        The source or an option can't be used, or `path` is a folder.
    ToolchainError
        The file cannot be written, the graph is too large for one file, or preparing it changed its outputs.
    """
    if path.is_dir():
        raise UsageError(f"-o {path} is a folder", f"name a file in it: -o {path}/model.onnx")
    quantised = None
    if options.quantizer in POWERS_OF_TWO:
        raise UsageError(
            f"--quantizer {options.quantizer}: its integers have no form that other programs read",
            f"use --quantizer {'|'.join(AFFINE)}",
        )
    if options.quantizer:
        half_loaded = fold_source(source, options)
        network = half_loaded.source
        quantised, _ = quantised_for_cpus(half_loaded, options)
        model = quantised.graph
    else:
        network = read_source(source, options)
        _, model, frozen = prepare(network, options)
        check_valid(model, network.origin)
        with_output_types(model, fold(model, network.origin, frozen).model)
        _store(model.graph, frozen)
    try:
        data = model.SerializeToString(deterministic=True)
    except ValueError as error:  # 2 GiB is protobuf's limit
        raise ToolchainError(f"{network.origin} does not fit into one file: {first_line(error)}") from error
    atomic.write_bytes(path, data)
    return quantised


def _store(graph: onnx.GraphProto, frozen: Mapping[str, Array]) -> None:
    """Turn constant inputs into stored tensors."""
    kept = [value for value in graph.input if value.name not in frozen]
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in frozen.items())
