"""Prints the results of the shapes of a bundle, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from toolchain.cli.output import emit

if TYPE_CHECKING:
    from toolchain.bundles.read import Bundle


class Documented(Protocol):
    """A result that can be a JSON document."""

    def to_json(self) -> dict[str, Any]:
        """Return the document."""


Result = TypeVar("Result", bound=Documented)


def emit_shapes(
    shapes: Sequence[Bundle],
    results: Sequence[Result],
    whole: Mapping[str, object],
    show: Callable[[Result], None],
) -> None:
    """Print each shape with its result, or one document: `shapes`, each with its `inputs`, and `whole`."""
    from toolchain.measuring.shapes import listed_inputs, shape_of

    pairs = list(zip(shapes, results, strict=True))

    def tell() -> None:
        for shape, result in pairs:
            click.echo(f"{shape_of(shape.manifest)}")
            show(result)

    documents = [{"inputs": listed_inputs(shape.manifest), **result.to_json()} for shape, result in pairs]
    emit({**whole, "shapes": documents}, tell)
