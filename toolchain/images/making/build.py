"""Makes images of the table, base images first, with the engine's own builder."""

from __future__ import annotations

import re
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from toolchain.configuration.settings import cache_dir
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.files.plain import expanded
from toolchain.files.turns import one_at_a_time
from toolchain.foreign import printable
from toolchain.images.catalogue import Image, usual, with_foundations
from toolchain.images.certificates import bundle
from toolchain.images.contents import Item, files_of, foundation_name, items_of, write_context
from toolchain.images.debian.bootstrap import ARCHITECTURE, SUITE, WITHOUT, ensure_debian
from toolchain.images.debian.system import ensure_system
from toolchain.images.debian.unpacking import debian_mirror
from toolchain.images.engine import ARGUMENTS_LABEL, LABEL, Engine
from toolchain.images.listing import ImageState, labels_of, state_of
from toolchain.images.making.wheels import ensure_wheels

# Build arguments: which ones an image takes, and the files that they name.

ARGUMENTS_FOLDER = "given"  # in every context; `COPY given/ …` works without any
FILE_SUFFIX = "_ARCHIVE"
_OURS = frozenset({"DEBIAN", "FOUNDATION", "MIRROR"})


def declared_arguments(image: Image) -> set[str]:
    """Return the keys of an image's build arguments, from its Dockerfile."""
    if image.system:
        return set()
    text = (image.path / "Dockerfile").read_text()
    return set(re.findall(r"^ARG\s+([A-Za-z_][A-Za-z0-9_]*)", text, re.MULTILINE)) - _OURS


def check_arguments(arguments: Mapping[str, str], images: Iterable[Image]) -> None:
    """Check build arguments and the files that they name.

    Raises
    ------
    UsageError
        None of the images takes an argument, or a file does not exist.
    """
    images = list(images)
    for key in arguments:
        if not any(key in declared_arguments(image) for image in images):
            names = ", ".join(image.name for image in images)
            raise UsageError(f"--build-arg {key}: none of {names} takes it", _hint(images))
    resolved_arguments(arguments)


def resolved_arguments(arguments: Mapping[str, str]) -> tuple[dict[str, str], list[Item]]:
    """Return the arguments as a Dockerfile sees them, and the files that go into its context.

    Raises
    ------
    UsageError
        A file does not exist, or two files have the same name.
    """
    values = dict(arguments)
    files: list[Item] = []
    for key, value in arguments.items():
        if not key.endswith(FILE_SUFFIX) or not value:
            continue
        file = expanded(value)
        if not file.is_file():
            raise UsageError(f"--build-arg {key}={value}: no such file", "the path of a file on this machine")
        values[key] = f"{ARGUMENTS_FOLDER}/{file.name}"
        if any(values[key] == other.name and file != other.content for other in files):
            raise UsageError(
                f"--build-arg {key}={value}: another file of this name is given", "rename one of the two"
            )
        files.append(Item(values[key], file))
    return values, files


def _hint(images: Iterable[Image]) -> str:
    keys = sorted({key for image in images for key in declared_arguments(image)})
    return f"they take: {', '.join(keys)}" if keys else "they take none"


# Plans a build: the images to make, in their order.


def to_build(
    engine: Engine,
    names: Iterable[str] = (),
    *,
    build_args: Mapping[str, str] | None = None,
    no_cache: bool = False,
) -> list[tuple[Image, ImageState, bool]]:
    """Return the images of a build in its order, their states, and whether the build would make them.

    Parameters
    ----------
    names
        The images; none: all of the table but optional ones.
    build_args
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
    keys = set(build_args or ())
    check_arguments(build_args or {}, [image for image in images if image.name in named])
    plan: list[tuple[Image, ImageState, bool]] = []
    anew: set[str] = set()
    for image in images:
        state = state_of(engine, image)
        declared = declared_arguments(image)
        passed = keys & declared if image.name in named else set()
        forced = bool(passed) or (no_cache and image.name in named)
        needed = state.stale or forced or image.stands_on in anew
        if needed:
            anew.add(image.name)
            _check_kept(engine, image, declared - passed)
        plan.append((image, state, needed))
    return plan


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


# Follows the engine's output of a build: reports steps as progress, and a failing step as an error.

_LAST_LINES = 20
_LONGEST = 100  # of a step as it is shown


def follow(
    name: str, dockerfile: str, stream: Iterable[Mapping[str, Any]], progress: Callable[[str], None]
) -> set[str]:
    """Follow a build to its end; return the short ids of the images that its steps made or used.

    Parameters
    ----------
    dockerfile
        Path of the Dockerfile, for the error.
    progress
        Called with one line for each step.

    Raises
    ------
    ToolchainError
        A step failed; the message names it and has its last lines.
    """
    image_ids: set[str] = set()
    last: deque[str] = deque(maxlen=_LAST_LINES)
    step = "before the first step"
    pending = ""
    for message in stream:
        if "error" in message:
            last_lines = "\n".join(f"  {line}" for line in last)
            raise ToolchainError(
                f"image {name}: {step} failed: {str(message['error']).strip()}"
                + (f"\n{last_lines}" if last_lines else ""),
                f"the step is in {dockerfile}",
            )
        pending += message.get("stream", "")
        *lines, pending = pending.split("\n")
        for line in map(_plain, lines):
            if match := re.match(r"Step (\d+/\d+) : (.*)", line):
                step = f"step {match[1]} ({match[2]})"
                last.clear()
                progress(f"{name}: step {match[1]}: {match[2][:_LONGEST]}")
            elif match := re.fullmatch(r" ---> ([0-9a-f]{12})", line):
                image_ids.add(match[1])
            elif line and not line.startswith(" --->"):
                last.append(line)
    return image_ids


def _plain(line: str) -> str:
    return printable(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rpartition("\r")[2] or line.strip("\r")))


# Label on stages of a Dockerfile that are not part of the image; its value is the image's name.
STAGE_LABEL = f"{LABEL}.stage"
FOLDER = "images"  # in the cache
_SILENT_SECONDS = 1800.0  # the engine says nothing while a step does not


@dataclass(frozen=True)
class Built:
    """An image that is current now; `made` says whether this build made it."""

    state: ImageState
    made: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {**self.state.to_json(), "made": self.made, "seconds": round(self.seconds, 1)}


def build_images(
    engine: Engine,
    names: Iterable[str] = (),
    *,
    build_args: Mapping[str, str] | None = None,
    no_cache: bool = False,
    progress: Callable[[str], None],
) -> list[Built]:
    """Make the images that are absent or out of date, base images first.

    Parameters
    ----------
    names
        The images; none: all of the table but optional ones.
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
        No such image; no image takes a build argument; its file is not there; an image would lose an
        argument that it was made with.
    MissingError
        Something that images are made with is not on this machine.
    ToolchainError
        A step failed, or something cannot be fetched.
    """
    lock = cache_dir() / FOLDER / "build.lock"  # each process removes the stages of earlier builds
    waiting = partial(progress, "waiting for another process that builds images")
    with one_at_a_time(lock, _SILENT_SECONDS, f"building images ({lock})", waiting):
        return _build_all(engine, tuple(names), dict(build_args or {}), no_cache, progress)


def _build_all(
    engine: Engine,
    names: Iterable[str],
    arguments: Mapping[str, str],
    no_cache: bool,
    progress: Callable[[str], None],
) -> list[Built]:
    plan = to_build(engine, names, build_args=arguments, no_cache=no_cache)
    named = set(names) or set(usual())
    built: list[Built] = []
    for image, state, needed in plan:
        began = time.monotonic()
        if not needed:
            progress(f"{image.name}: current")
        elif image.system:
            ensure_system(engine, image, progress)
        else:
            declared = declared_arguments(image) if image.name in named else set()
            passed = {key: value for key, value in arguments.items() if key in declared}
            _build(engine, image, passed, no_cache and image.name in named, progress)
        after = state_of(engine, image) if needed else state
        built.append(Built(after, needed, time.monotonic() - began))
    for result in reversed(built):
        if result.made:
            engine.remove_superseded(result.state.name, result.state.tag)
    return built


def _build(
    engine: Engine,
    image: Image,
    arguments: Mapping[str, str],
    no_cache: bool,
    progress: Callable[[str], None],
) -> None:
    _check_machine(engine)
    debian = ensure_debian(engine, progress)
    foundation = foundation_name(image)
    mirror = debian_mirror(SUITE)
    # Before the contents are read, so that the image is out of date if they change meanwhile.
    labels = labels_of(engine, image, foundation, (key for key, value in arguments.items() if value))
    values, files = resolved_arguments(arguments)
    items = [*items_of(image), Item("certs/ca.pem", bundle()), *files]
    wheels = ensure_wheels(image, progress)
    items += files_of(wheels, "wheels/") if wheels else ()
    scratch = cache_dir() / FOLDER
    progress(f"{image.name}: sending its files to Docker")
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".context.") as folder:
        context = Path(folder) / "context.tar"
        write_context(context, items, ["certs", ARGUMENTS_FOLDER])
        with context.open("rb") as file, engine.request(f"build the image {image.name}"):
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
                labels=labels,
            )
            used = follow(image.name, str(image.path / "Dockerfile"), stream, progress)
    _remove_stages(engine, image, used)


def _check_machine(engine: Engine) -> None:
    with engine.request("ask for its machine"):
        machine = engine.api.version()["Arch"]
    if machine != ARCHITECTURE:
        raise MissingError(
            f"the Docker daemon at {engine.where} runs on {machine}; images are made on {ARCHITECTURE}",
            WITHOUT,
        )


def _remove_stages(engine: Engine, image: Image, used: set[str]) -> None:
    """Remove the stages of earlier builds: nothing but the engine's cache of steps needs them."""
    import docker.errors

    with engine.request(f"remove old stages of {image.name}"):
        stages = engine.api.images(filters={"label": f"{STAGE_LABEL}={image.name}", "dangling": True})
        for stage in stages:
            if stage["Id"].removeprefix("sha256:")[:12] not in used:
                with suppress(docker.errors.APIError):  # in use, or removed by another process
                    engine.api.remove_image(stage["Id"])
