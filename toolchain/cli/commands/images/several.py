"""Does one thing with several images; an error with one image does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.output import emit, note, table
from toolchain.errors import MissingError, ToolchainError

if TYPE_CHECKING:
    from toolchain.images.catalogue import Image
    from toolchain.images.engine import Engine


class ResultError(ToolchainError):
    """An error that is the result of work on one image; `fields` are what is known of it, for JSON."""

    def __init__(self, message: str, fields: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.fields = fields


def named(names: Iterable[str]) -> list[Image]:
    """Return the images with these names, without repetition; for no names, all of the table."""
    from toolchain.images.catalogue import catalogue, image_named

    return [image_named(name) for name in dict.fromkeys(names)] or list(catalogue().values())


def named_or_here(engine: Engine, names: Iterable[str]) -> list[Image]:
    """Return the images with these names; for no names, those that exist here."""
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
    """Call `act` with each image and print the results; exit with the code of the first error.

    Parameters
    ----------
    act
        Returns the fields of an image for JSON, without its name. Those of a `ResultError` are printed, too.
    columns
        Columns of the table after the name: heading, and what to show of those fields.
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
            known = error.fields if isinstance(error, ResultError) else {}
            rows.append({"name": image.name, **known, "error": error.message, "hint": error.hint})

    def tell() -> None:
        cells = [
            (r["name"], *("failed" if "error" in r else show(r) for show in columns.values())) for r in rows
        ]
        table(["NAME", *columns], cells)

    emit(rows, tell)
    if failed:
        click.get_current_context().exit(failed[0].exit_code)
