"""Doing one thing with several images: an error with one does not keep it from being done with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.output import emit, note, table
from toolchain.errors import MissingError, ToolchainError

if TYPE_CHECKING:
    from toolchain.images.catalogue import Image
    from toolchain.images.engine import Engine


def named(names: Iterable[str]) -> list[Image]:
    """Return the images of those names, each once; none: all of the table."""
    from toolchain.images.catalogue import catalogue, image_named

    return [image_named(name) for name in dict.fromkeys(names)] or list(catalogue().values())


def named_or_here(engine: Engine, names: Iterable[str]) -> list[Image]:
    """Return the images of those names; none: those of the table that the engine has."""
    if names := list(names):
        return named(names)
    here = [image for image in named(()) if engine.image_labels(image.tag) is not None]
    if not here:
        raise MissingError("none of the images is here", "`toolchain image build` makes them")
    return here


def report(
    images: Iterable[Image],
    act: Callable[[Image], Mapping[str, Any]],
    columns: Mapping[str, Callable[[Mapping[str, Any]], object]],
) -> None:
    """Call `act` with each image and print what came of it; exit with the code of the first error.

    Parameters
    ----------
    act
        Returns what JSON says of an image beside its name.
    columns
        Heading → what the table for people shows of that, beside the name.
    """
    rows: list[dict[str, Any]] = []
    failed: list[ToolchainError] = []
    for image in images:
        try:
            rows.append({"name": image.name, **act(image)})
        except ToolchainError as error:
            note(f"error: {image.name}: {error.message}")
            if error.hint:
                note(f"hint: {error.hint}")
            failed.append(error)
            rows.append({"name": image.name, "error": error.message, "hint": error.hint})

    def tell() -> None:
        cells = [
            (r["name"], *("failed" if "error" in r else show(r) for show in columns.values())) for r in rows
        ]
        table(["NAME", *columns], cells)

    emit(rows, tell)
    if failed:
        click.get_current_context().exit(failed[0].exit_code)
