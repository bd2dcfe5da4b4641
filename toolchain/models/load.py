"""Loads a source as a Model; every command uses this function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx

from toolchain.arrays import Array
from toolchain.models.bounds.insert import with_checks
from toolchain.models.folding.result import Folded
from toolchain.models.importing.float16 import as_float32
from toolchain.models.importing.importer import import_module, output_specs
from toolchain.models.importing.refusing import check_compiles, check_element_types
from toolchain.models.options import AFFINE, POWERS_OF_TWO, ModelOptions
from toolchain.models.parts import Ends, joined_parts
from toolchain.models.preparing.cutting import with_output_types
from toolchain.models.preparing.declared import input_specs
from toolchain.models.preparing.empty import check_not_empty
from toolchain.models.preparing.infer_shapes import infer_shapes
from toolchain.models.preparing.prepare import prepare
from toolchain.models.preparing.validity import check_valid
from toolchain.models.quantising.affine import quantise as affine
from toolchain.models.quantising.powers_of_two import quantise as powers_of_two
from toolchain.models.quantising.result import Quantised
from toolchain.models.reading.source import is_zoo, read_source
from toolchain.models.rewrites import rewrite
from toolchain.models.rewrites.quantised.groups import fold_in_groups
from toolchain.models.rounding import Rounding, find_rounding
from toolchain.models.softmax import softmax_outputs
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
        The original or quantised graph from which the expected output is computed, with its weights inside
        and only the requested outputs.
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
    others
        The same network in smaller shapes, whose functions are in `module`, too; see `models.several`.
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
    others: tuple[Model, ...] = ()

    @property
    def shapes(self) -> tuple[Model, ...]:
        """The network in each of its shapes, the largest first: this model and `others`."""
        return (self, *self.others)

    @property
    def integral(self) -> bool:
        """Whether the network multiplies 8-bit integers."""
        return self.rounding is not None


def check_source(source: str, options: ModelOptions) -> None:
    """Refuse a file that cannot be compiled, as `load_model` does, before anything slow is begun.

    What only the import to Relax notices is left to `load_model`: TVM is not imported here, and networks of
    the zoo are not made.

    Raises
    ------
    UsageError
        As of `load_model`.
    """
    if is_zoo(source):
        return
    first = options.each()[0]
    found = read_source(source, first)
    static, frozen = prepare(found, first)[1:]
    check_valid(static, found.origin)
    graph = infer_shapes(_folded(static, found.origin, frozen)[1].model, found.origin)
    check_not_empty(graph, found.origin)
    check_types(input_specs(graph), found.origin)
    check_element_types(graph, found.origin)
    with_checks(graph, found.origin)  # refuses constants outside of their bounds


def load_model(source: str, options: ModelOptions) -> Model:
    """Load `zoo:NAME` (or the bare name) or the path of an `.onnx` or `.tflite` file.

    Raises
    ------
    UsageError
        The network does not exist, the file is unreadable or invalid, a shape is open, or an operator is
        unsupported.
    """
    found = read_source(source, options)
    source_graph, static, frozen = prepare(found, options)
    check_valid(static, found.origin)
    integers: Quantised | None = None
    if options.quantizer in AFFINE:
        integers = quantised_for_cpus(static, frozen, options, found.origin)
        grouped, folded = _folded(integers.graph, found.origin, {})
    else:
        grouped, folded = _folded(static, found.origin, frozen)
    graph = infer_shapes(folded.model, found.origin)
    check_not_empty(graph, found.origin)
    inputs = input_specs(graph)
    check_types(inputs, found.origin)
    check_element_types(graph, found.origin)
    full = as_float32(graph)
    computed = graph if full is graph else infer_shapes(full, found.origin)
    if options.quantizer in POWERS_OF_TWO:
        integers = powers_of_two.quantise(computed, options.quantizer, options.calibration, found.origin)
        computed = integers.graph
    module = import_module(computed, found.origin)
    outputs = output_specs(graph, module, found.origin)
    check_types(outputs, found.origin)
    return Model(
        name=found.name,
        source=found.origin,
        onnx=integers.graph if integers else with_output_types(source_graph, graph),
        frozen={} if integers else frozen,  # constants of the quantised graph
        quantised=integers,
        module=module,
        inputs=inputs,
        outputs=outputs,
        sha256=found.sha256,
        softmax_outputs=softmax_outputs(graph),
        options=options,
        joined=joined_parts(graph),
        rounding=None if options.quantizer in POWERS_OF_TWO else find_rounding(grouped.model),
    )


def quantised_for_cpus(
    static: onnx.ModelProto, frozen: Mapping[str, Array], options: ModelOptions, origin: str
) -> Quantised:
    """Return the integers of a prepared float graph, whose own graph is in QDQ form.

    Raises
    ------
    UsageError
        The graph cannot be compiled or quantised, or the images for calibration do not fit.
    """
    grouped = _folded(static, origin, frozen)[0]
    full = as_float32(infer_shapes(grouped.model, origin))
    return affine.quantise(full, options.quantizer, options.calibration, origin)


def _folded(static: onnx.ModelProto, origin: str, frozen: Mapping[str, Array]) -> tuple[Folded, Folded]:
    """Return the folded graph with groups of integers, and the same with rewritten operators."""
    grouped = fold_in_groups(static, origin, frozen)
    folded = rewrite(grouped, origin)
    check_compiles(folded, static, origin)
    return grouped, folded
