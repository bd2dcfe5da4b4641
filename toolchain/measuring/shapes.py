"""Picks among the shapes of a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from toolchain.bundles.manifest import Manifest
from toolchain.bundles.read import Bundle
from toolchain.errors import UsageError
from toolchain.models.options import format_shape, parse_shape
from toolchain.models.spec import TensorSpec, check_inputs


def input_specs(manifest: Manifest) -> tuple[TensorSpec, ...]:
    """Return the inputs of a bundle's network."""
    return tuple(TensorSpec(t.name, t.shape, t.dtype) for t in manifest.inputs)


def shape_of(manifest: Manifest) -> str:
    """Return the shapes of a bundle's inputs as `--shape` and `--at` take them: `x=1,3,48,320 y=1,80`."""
    return " ".join(format_shape(tensor.name, tensor.shape) for tensor in manifest.inputs)


def listed_inputs(manifest: Manifest) -> dict[str, list[int]]:
    """Return the shapes of a bundle's inputs by name, for JSON documents."""
    return {tensor.name: list(tensor.shape) for tensor in manifest.inputs}


def shapes_at(bundle: Bundle, wanted: Sequence[str]) -> list[Bundle]:
    """Return a bundle for each of the wanted shapes, the smallest first.

    Parameters
    ----------
    wanted
        Values of `--at`: shapes of inputs, which the returned bundles have. Empty: all shapes.

    Raises
    ------
    UsageError
        A value is malformed, or no shape of the bundle has them all.
    """
    shapes = bundle.each()
    texts = [parse_shape(text, "--at") for text in wanted]
    chosen = [one for one in shapes if all(_has(one.manifest, *text) for text in texts)]
    if not chosen:
        raise UsageError(f"--at {' '.join(wanted)}: the bundle has no such shape", _known(shapes))
    return chosen


def shape_for(bundle: Bundle, inputs: Mapping[str, np.ndarray], *, pad: bool = False) -> Bundle:
    """Return the bundle reduced to the shape that computes these inputs.

    Parameters
    ----------
    pad
        Whether inputs without a shape of their own may be padded to the smallest shape that they fit into.

    Raises
    ------
    UsageError
        An input is unknown, missing or of another dtype; no shape takes the inputs; or they would have to be
        padded, and the bundle was built without `--pad`.
    """
    if not bundle.manifest.shapes:
        if pad:
            raise UsageError(
                f"--pad: {bundle.path} has one shape, {shape_of(bundle.manifest)}", "leave --pad out"
            )
        check_inputs(input_specs(bundle.manifest), inputs)
        return bundle
    if pad and not bundle.manifest.pad:
        raise UsageError(
            f"--pad: {bundle.path} was built without it, and zeros behind the inputs may change its outputs",
            "build it with --pad, which checks that they do not",
        )
    shapes = bundle.each()
    specs = input_specs(bundle.manifest)
    check_inputs(specs, inputs, shapes=False)
    fitting = [one for one in shapes if _takes(one.manifest, inputs, pad=False)]
    roomy = [one for one in shapes if bundle.manifest.pad and _takes(one.manifest, inputs, pad=True)]
    if not fitting and pad:
        fitting = roomy
    if not fitting:
        given = " ".join(format_shape(spec.name, inputs[spec.name].shape) for spec in specs)
        raise UsageError(
            f"--input: {given} {'fits into' if pad else 'is'} none of the bundle's shapes",
            _known(shapes) + ("; add --pad to fill it up with zeros" if roomy else ""),
        )
    # edge-rt takes the same one: of equally large ones the first in its table, the last of `each`.
    return min(fitting[::-1], key=lambda one: sum(prod(tensor.shape) for tensor in one.manifest.inputs))


def _takes(manifest: Manifest, inputs: Mapping[str, np.ndarray], *, pad: bool) -> bool:
    return all(
        inputs[tensor.name].ndim == len(tensor.shape)
        and all(
            extent == room or (pad and extent < room)
            for extent, room in zip(inputs[tensor.name].shape, tensor.shape, strict=True)
        )
        for tensor in manifest.inputs
    )


def _has(manifest: Manifest, name: str, shape: tuple[int, ...]) -> bool:
    return any((tensor.name, tensor.shape) == (name, shape) for tensor in manifest.inputs)


def _known(shapes: Sequence[Bundle]) -> str:
    return f"there {'are' if len(shapes) > 1 else 'is'}: " + "; ".join(
        shape_of(one.manifest) for one in shapes
    )
