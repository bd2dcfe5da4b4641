"""Loads a network in several shapes as one model, whose module has a function for each shape."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from toolchain import tvm_compat
from toolchain.errors import UsageError
from toolchain.models.load import FoldedSource, Model, load_model
from toolchain.models.options import ModelOptions, format_shape
from toolchain.quantities import counted

# The functions of a module that compute the network: one for each shape.

MAIN = "main"
"""Name of the function for the only shape, or for the largest of several."""


def entry_name(number: int) -> str:
    """Return the name of the function for a shape; number 0 is the largest shape."""
    return f"{MAIN}_{number}" if number else MAIN


def entries(module: tvm.ir.IRModule) -> list[str]:
    """Return the names of the functions that compute the network, that of the largest shape first."""
    names = {variable.name_hint for variable in module.functions}
    names_in_order = [MAIN]
    while entry_name(len(names_in_order)) in names:
        names_in_order.append(entry_name(len(names_in_order)))
    return names_in_order


_SMALL = 256  # bytes; smaller constants are not worth a hash


def load_shapes(source: str, options: ModelOptions, half_loaded: FoldedSource | None = None) -> Model:
    """Load a network in one or several shapes.

    Parameters
    ----------
    half_loaded
        The answer of `check_source` for the same source and options, so that nothing is folded twice.

    Returns
    -------
    Model
        The network in its largest shape. Its `others` are the same network in the other shapes, the larger
        ones first; its `module` has the functions of all (see `entries`). Equal constants are one
        object there.

    Raises
    ------
    UsageError
        For the reasons of `load_model`; or two listed shapes are equal, inputs or outputs differ by more than
        their extents, or the network is to be quantised.
    """
    if options.several is None:
        return load_model(source, options, half_loaded)
    if options.quantizer:
        raise UsageError(
            f"{options.several}: integers are of one shape, since each shape would get scales of its own",
            "give one shape, or leave out --dtype int8",
        )
    models: list[Model] = []
    for number, shape_options in enumerate(options.each()):
        model = load_model(source, shape_options, None if number else half_loaded)
        if models and model.onnx == models[0].onnx:  # the same file, with its weights: kept once
            model = replace(model, onnx=models[0].onnx)
        models.append(model)
    _check_alike(models, options)
    models.sort(key=input_elements, reverse=True)
    module = _merged([model.module for model in models])
    first, *others = (replace(model, module=module) for model in models)
    return replace(first, others=tuple(others), options=options)


def shape_of(model: Model) -> str:
    """Return the shapes of a model's inputs as `--shape` takes them: `x=1,3,48,320 y=1,80`."""
    return " ".join(format_shape(spec.name, spec.shape) for spec in model.inputs)


def input_elements(model: Model) -> int:
    """Return the number of elements in a model's inputs, by which its shapes are ordered."""
    return sum(prod(spec.shape) for spec in model.inputs)


def _check_alike(models: Sequence[Model], options: ModelOptions) -> None:
    """Refuse models that are of the same shape, or that differ by more than their shapes."""
    origin, seen = models[0].source, set()
    for model in models:
        shape = shape_of(model)
        if shape in seen:
            raise UsageError(
                f"{options.several}: two of these shapes are the same for {origin}: {shape}",
                "list each shape once, and only extents that the file leaves open",
            )
        seen.add(shape)
        for kind in ("inputs", "outputs"):
            mine, theirs = (
                [_form(spec) for spec in getattr(network, kind)] for network in (model, models[0])
            )
            if mine != theirs:
                raise UsageError(
                    f"{options.several}: {origin} has other {kind} in the shape {shape} than in "
                    f"{shape_of(models[0])}: {', '.join(mine)} and {', '.join(theirs)}",
                    "build these shapes separately",
                )


def _form(spec: Any) -> str:
    return f"{spec.name} ({spec.dtype}, {counted(len(spec.shape), 'axis', 'axes')})"


def _placed(
    places: Mapping[tvm.ir.GlobalVar, tvm.ir.GlobalVar], variable: tvm.ir.GlobalVar, _mutator: Any
) -> tvm.ir.GlobalVar:
    return places.get(variable, variable)


def _merged(modules: Sequence[tvm.ir.IRModule]) -> tvm.ir.IRModule:
    """Return a module with the functions of all; equal constants and equal TensorIR functions are shared."""
    builder = relax.BlockBuilder()
    constants: dict[tuple[str, tuple[int, ...], bytes], GenericConst] = {}

    def shared(constant: GenericConst, _mutator: Any) -> GenericConst:
        array = constant.value.numpy()
        if array.nbytes < _SMALL:
            return constant
        key = (str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).digest())
        return constants.setdefault(key, constant)

    mains = {}
    for number, module in enumerate(modules):
        places: dict[tvm.ir.GlobalVar, tvm.ir.GlobalVar] = {
            variable: builder.add_func(func, variable.name_hint)
            for variable, func in module.functions.items()
            if isinstance(func, tirx.PrimFunc)
        }

        placed = partial(_placed, places)
        name = entry_name(number)
        changes: list[tuple[type, Callable[[Any, Any], Any]]] = [
            (GenericConst, shared),
            (tvm.ir.GlobalVar, placed),
        ]
        mains[name] = tvm_compat.mutated(module[MAIN], changes).with_attr("global_symbol", name)
    functions = dict(builder.get().functions.items())
    functions |= {tvm.ir.GlobalVar(name): func for name, func in mains.items()}
    return tvm.IRModule(functions, attrs=modules[0].attrs, global_infos=modules[0].global_infos)
