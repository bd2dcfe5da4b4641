"""Prints the results of a bundle, in each of its shapes."""

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
    bundle: Bundle,
    at: Sequence[str],
    results: Sequence[Result],
    whole: Mapping[str, object],
    show: Callable[[Result], None],
) -> None:
    """Print the results of a bundle.

    Parameters
    ----------
    at
        The shapes that were asked for; as of `shapes_at`.
    results
        Of each of these shapes in their order.
    whole
        What the document of a bundle with several shapes has beside `shapes`, each with its `inputs`.
    """
    if not bundle.manifest.shapes:
        emit(results[0].to_json(), lambda: show(results[0]))
        return
    from toolchain.measuring.shapes import listed_inputs, shape_of, shapes_at

    pairs = list(zip(shapes_at(bundle, at), results, strict=True))

    def tell() -> None:
        for shape, result in pairs:
            click.echo(f"{shape_of(shape.manifest)}")
            show(result)

    documents = [{"inputs": listed_inputs(shape.manifest), **result.to_json()} for shape, result in pairs]
    emit({**whole, "shapes": documents}, tell)
