"""Which images a build would make, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from toolchain.errors import UsageError
from toolchain.images.catalogue import Image, usual, with_foundations
from toolchain.images.engine import ARGUMENTS_LABEL, Engine
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
        No such image; no image takes a build argument; its file is not there; an image would lose an
        argument that it was made with.
    """
    named = set(names) or set(usual())
    images = with_foundations(named)
    keys = set(given or ())
    arguments.check(given or {}, [image for image in images if image.name in named])
    found: list[tuple[Image, ImageState, bool]] = []
    anew: set[str] = set()
    for image in images:
        state = state_of(engine, image)
        taken = arguments.declared(image)
        mine = keys & taken if image.name in named else set()
        asked = bool(mine) or (no_cache and image.name in named)
        wanted = state.stale or asked or image.stands_on in anew
        if wanted:
            anew.add(image.name)
            _check_kept(engine, image, taken - mine)
        found.append((image, state, wanted))
    return found


def _check_kept(engine: Engine, image: Image, left_out: Set[str]) -> None:
    """Refuse to make an image without arguments that the one before it was made with."""
    labels = engine.image_labels(image.tag) or {}
    lost = sorted(left_out & set(labels.get(ARGUMENTS_LABEL, "").split()))
    if lost:
        again = " ".join(f"--build-arg {key}=…" for key in lost)
        raise UsageError(
            f"the image {image.name} was made with {', '.join(lost)}, and would be made again without",
            f"`toolchain image build {image.name} {again}`; an empty value, as in {lost[0]}=, leaves it out",
        )
