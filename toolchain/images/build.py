"""Makes images of the table, what they stand on first, through the engine's own builder."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from toolchain import __version__
from toolchain.config import cache_dir
from toolchain.errors import MissingError
from toolchain.images import arguments, sources
from toolchain.images.bootstrap import ARCHITECTURE, SUITE, ensure_debian
from toolchain.images.catalogue import Image, catalogue, with_foundations
from toolchain.images.certificates import bundle
from toolchain.images.context import Item, files_of, write_context
from toolchain.images.engine import IMAGE_LABEL, LABEL, SOURCES_LABEL, Engine
from toolchain.images.listing import ImageState, state_of
from toolchain.images.mirror import debian_mirror
from toolchain.images.sources import ANNOTATION, FOUNDATION_LABEL, LOCK_LABEL, lock_digest, sources_digest
from toolchain.images.streamed import follow
from toolchain.images.system import ensure_system
from toolchain.images.wheels import ensure_wheels
from toolchain.turns import one_at_a_time

# On the stages of a Dockerfile that are not part of the image: its name.
STAGE_LABEL = f"{LABEL}.stage"
FOLDER = "images"  # in the cache
_SILENT_SECONDS = 1800.0  # the engine says nothing while a step does not
_GIT_SECONDS = 10.0


@dataclass(frozen=True)
class Built:
    """An image that is current now; `made`: it was not before."""

    state: ImageState
    made: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**self.state.to_json(), "made": self.made, "seconds": round(self.seconds, 1)}


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
        The images; none: all of the table.
    given
        Build arguments: a named image that takes one is always made.
    no_cache
        Make the named ones, current or not.

    Raises
    ------
    UsageError
        No such image; no image takes a build argument; its file is not there.
    """
    named = set(names) or set(catalogue())
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


def build_images(
    engine: Engine,
    names: Iterable[str] = (),
    *,
    build_args: Mapping[str, str] | None = None,
    no_cache: bool = False,
    progress: Callable[[str], None],
) -> list[Built]:
    """Make the images that are absent or out of date; what they stand on comes first.

    Parameters
    ----------
    names
        The images; none: all of the table.
    build_args
        `ARG`s of the named images' Dockerfiles. One whose key ends in `_ARCHIVE` names a file of
        this machine: it is put into the context, and the Dockerfile finds its path there.
    no_cache
        Make the named ones again, without the engine's cache of steps.
    progress
        Called with one line for each step.

    Raises
    ------
    UsageError
        No such image; no image takes a build argument; its file is not there.
    MissingError
        Something that images are made with is not on this machine.
    ToolchainError
        A step failed, or something cannot be fetched.
    """
    lock = cache_dir() / FOLDER / "build.lock"  # each process removes the stages of earlier builds
    told = partial(progress, "waiting for another process that builds images")
    with one_at_a_time(lock, _SILENT_SECONDS, f"building images ({lock})", told):
        return _build_all(engine, tuple(names), dict(build_args or {}), no_cache, progress)


def _build_all(
    engine: Engine,
    names: Iterable[str],
    given: Mapping[str, str],
    no_cache: bool,
    progress: Callable[[str], None],
) -> list[Built]:
    plan = to_build(engine, names, given=given, no_cache=no_cache)
    named = set(names) or set(catalogue())
    built: list[Built] = []
    for image, state, wanted in plan:
        began = time.monotonic()
        if not wanted:
            progress(f"{image.name}: current")
        elif image.system:
            ensure_system(engine, image, progress)
        else:
            taken = arguments.declared(image) if image.name in named else set()
            mine = {key: value for key, value in given.items() if key in taken}
            _build(engine, image, mine, no_cache and image.name in named, progress)
        after = state_of(engine, image) if wanted else state
        built.append(Built(after, wanted, time.monotonic() - began))
    for each in reversed(built):
        if each.made:
            engine.remove_superseded(each.state.name, each.state.tag)
    return built


def _build(
    engine: Engine, image: Image, given: Mapping[str, str], no_cache: bool, progress: Callable[[str], None]
) -> None:
    _check_machine(engine)
    debian = ensure_debian(engine, progress)
    foundation = sources.foundation_name(image)
    mirror = debian_mirror(SUITE)
    values, files = arguments.with_files(given)
    items = [*sources.items(image), Item("certs/ca.pem", bundle()), *files]
    wheels = ensure_wheels(image, progress)
    items += files_of(wheels, "wheels/") if wheels else ()
    scratch = cache_dir() / FOLDER
    progress(f"{image.name}: sending its files to Docker")
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".context.") as folder:
        context = Path(folder) / "context.tar"
        write_context(context, items, ["certs", arguments.FOLDER])
        with context.open("rb") as file, engine.asked(f"build the image {image.name}"):
            stream = engine.api.build(
                fileobj=file,
                custom_context=True,
                decode=True,
                tag=image.tag,
                rm=True,
                forcerm=True,
                nocache=no_cache,
                network_mode="host",
                timeout=_SILENT_SECONDS,
                buildargs={"DEBIAN": debian, "FOUNDATION": foundation, "MIRROR": mirror, **values},
                labels=_labels(engine, image, foundation),
            )
            used = follow(image.name, str(image.path / "Dockerfile"), stream, progress)
    _remove_stages(engine, image, used)


def _check_machine(engine: Engine) -> None:
    with engine.asked("ask for its machine"):
        machine = engine.api.version()["Arch"]
    if machine != ARCHITECTURE:
        raise MissingError(
            f"the Docker daemon at {engine.where} runs on {machine}; images are made on {ARCHITECTURE}",
            "--engine host needs no image",
        )


def _labels(engine: Engine, image: Image, foundation: str) -> dict[str, str]:
    with engine.asked(f"look at the image {foundation}"):
        below = engine.api.inspect_image(foundation)
    return {
        IMAGE_LABEL: image.name,
        LOCK_LABEL: lock_digest(),
        SOURCES_LABEL: sources_digest(image),
        f"{ANNOTATION}.title": f"{LABEL} {image.name}",
        f"{ANNOTATION}.description": image.description,
        f"{ANNOTATION}.version": __version__,
        f"{ANNOTATION}.revision": _revision(),
        f"{ANNOTATION}.base.name": foundation.partition("@")[0],
        FOUNDATION_LABEL: foundation.partition("@")[2] or str(below["Id"]),
    }


def _revision() -> str:
    """Return the checkout's commit, `-dirty` if files were changed since; empty outside of one."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        ).stdout.strip()
    return ""


def _remove_stages(engine: Engine, image: Image, used: set[str]) -> None:
    """Remove the stages of earlier builds: nothing but the engine's cache of steps needs them."""
    import docker.errors

    with engine.asked(f"remove old stages of {image.name}"):
        found = engine.api.images(filters={"label": f"{STAGE_LABEL}={image.name}", "dangling": True})
        for stage in found:
            if stage["Id"].removeprefix("sha256:")[:12] not in used:
                with suppress(docker.errors.APIError):  # in use, or removed by another process
                    engine.api.remove_image(stage["Id"])
