"""Which images a build would make, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolchain.images.catalogue import Image, usual, with_foundations
from toolchain.images.engine import Engine
from toolchain.images.listing import ImageState, state_of
from toolchain.images.making import arguments


def to_build(
    engine: Engine,
    names: Iterable[str] = (),
    *,
    given: Mapping[str, str] | None = None,
    no_cache: bool = False,
) -> list[tuple[Image, ImageState, bool]]:
    """Return the images that a build is about, in its order, and whether it would make each.

    Parameters
    ----------
    names
        The images; none: all of the table but optional ones.
    given
        Build arguments: a named image that takes one is always made.
    no_cache
        Make the named ones, current or not.

    Raises
    ------
    UsageError
        No such image; no image takes a build argument; its file is not there.
    """
    named = set(names) or set(usual())
    images = with_foundations(named)
    keys = set(given or ())
    arguments.check(given or {}, [image for image in images if image.name in named])
    found: list[tuple[Image, ImageState, bool]] = []
    anew: set[str] = set()
    for image in images:
        state = state_of(engine, image)
        asked = image.name in named and (no_cache or bool(keys & arguments.declared(image)))
        wanted = state.stale or asked or image.stands_on in anew
        if wanted:
            anew.add(image.name)
        found.append((image, state, wanted))
    return found
