"""`toolchain image`: the images in whose containers steps run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.lazy import OrderedGroup
from toolchain.cli.output import emit, note, output_options, table
from toolchain.cli.terminal import bytes_for
from toolchain.errors import MissingError, ToolchainError

if TYPE_CHECKING:
    from toolchain.images.catalogue import Image
    from toolchain.images.engine import Engine


_UNITS = (("d", 86400), ("h", 3600), ("min", 60))  # of an age


@click.group(cls=OrderedGroup)
@output_options
def image() -> None:
    """Manage the images with cross-compilers, in which build and tune can run."""


def _parse_pairs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for (key, equals, _rest), value in zip(pairs, values, strict=True):
        if not equals or not key:
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
    return {key: rest for key, _equals, rest in pairs}


@image.command("build", short_help="Make images that are absent or out of date.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete.images)
@click.option(
    "--build-arg",
    "build_args",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_parse_pairs,
    help="An ARG of the named images' Dockerfiles; the value of a KEY_ARCHIVE is a file of this machine.",
)
@click.option("--no-cache", is_flag=True, help="Make the named images again, without Docker's cache.")
@click.option("--dry-run", is_flag=True, help="Only say what would be made.")
@output_options
def build(names: tuple[str, ...], build_args: dict[str, str], no_cache: bool, dry_run: bool) -> None:
    """Make images that are absent or out of date, after the images they are based on; default: all.

    mali-model is made only if it is named: it takes minutes, and few need it.
    """
    from toolchain.images.engine import connect
    from toolchain.images.making.build import build_images, to_build

    with connect() as engine:
        if dry_run:
            plan = to_build(engine, names, build_args=build_args, no_cache=no_cache)
            document = [{**state.to_json(), "make": wanted} for _, state, wanted in plan]
            rows = [(s.name, s.word, "make" if wanted else "leave") for _, s, wanted in plan]
            emit(document, lambda: table(["NAME", "STATE", "ACTION"], rows))
            return
        built = build_images(engine, names, build_args=build_args, no_cache=no_cache, progress=note)

    def print_text() -> None:
        rows = [
            (
                b.state.name,
                b.state.tag,
                f"{b.state.size_mib:.0f} MiB",
                f"{b.seconds:.0f} s" if b.made else "-",
            )
            for b in built
        ]
        table(["NAME", "TAG", "SIZE", "MADE IN"], rows)

    emit([b.to_json() for b in built], print_text)


@image.command("list", short_help="List the images, and which are out of date.")
@output_options
def list_images() -> None:
    """List the images: tag, size, age, and whether their sources have changed since."""
    from toolchain.images.engine import connect
    from toolchain.images.listing import states

    with connect() as engine:
        images = states(engine)

    def print_text() -> None:
        rows = [
            (s.name, s.tag, "-" if s.size_mib is None else f"{s.size_mib:.0f} MiB", _age(s.created), s.word)
            for s in images
        ]
        table(["NAME", "TAG", "SIZE", "AGE", "STATE"], rows)

    emit([s.to_json() for s in images], print_text)


def _age(created: datetime | None) -> str:
    if created is None:
        return "-"
    seconds = max(0.0, (datetime.now(UTC) - created).total_seconds())
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


@image.command("test", short_help="Test images: compile and run something in each.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete.images)
@output_options
def test(names: tuple[str, ...]) -> None:
    """Test images; default: all that exist here.

    Each compiles a program and a network for its boards and runs them; its output goes to stderr.
    """
    from toolchain.images.engine import connect
    from toolchain.images.listing import state_of
    from toolchain.images.making.smoke import smoke_test

    with connect() as engine:

        def act(image: Image) -> dict[str, Any]:
            state = state_of(engine, image)
            if state.id is not None and state.stale:
                note(f"warning: the image {image.name} is out of date: `toolchain image build {image.name}`")
            note(f"testing {image.name}")
            sys.stderr.flush()
            tested = smoke_test(engine, image, bytes_for(sys.stderr))
            if not tested.passed:
                raise ResultError(f"its test {tested}", tested.to_json())
            return tested.to_json()

        report(named_or_here(engine, names), act, {"RESULT": lambda row: f"passed in {row['seconds']:.0f} s"})


@image.command("shell", short_help="Open a shell in an image.")
@click.argument("name", shell_complete=complete.images)
@output_options
def shell(name: str) -> int:
    """Open a shell in an image, in the current folder, with the mounts and rights of a step.

    It can read the workspace and write the current folder; it reaches no network.
    """
    from toolchain.cli.engine import ContainerRun
    from toolchain.errors import UsageError
    from toolchain.images.catalogue import image_named
    from toolchain.images.engine import connect
    from toolchain.images.running.conversation import check_terminal, run_shell
    from toolchain.images.running.mounts import ensure_folders, mounts_for
    from toolchain.images.running.placement import choose
    from toolchain.images.running.step import Step

    if image_named(name).system:
        raise UsageError(f"{name} is a board", "`toolchain board emulate start CLASS`, then ssh into it")
    check_terminal()
    choice = choose("docker", name)
    if choice.image is None:
        raise UsageError("this is a shell in an image already", "exit")
    if choice.reason:
        note(choice.reason)
    here = Path.cwd()
    container = ContainerRun(choice.image, mounts_for([], [here]))
    step = Step(
        image=choice.image.id,
        argv=["/bin/bash", "--norc"],
        folder=here,
        mounts=container.mounts,
        environment={**container.environment(None), "PS1": rf"{name}:\w\$ "},
        terminal=True,
    )
    with connect() as engine, ensure_folders(step.mounts):
        return run_shell(engine, step)


@image.command("push", short_help="Push images to a registry.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete.images)
@click.option(
    "--registry",
    metavar="HOST[:PORT][/PREFIX]",
    required=True,
    help="Registry to push to; an image becomes HOST[:PORT][/PREFIX]/edge-toolchain/NAME.",
)
@output_options
def push(names: tuple[str, ...], registry: str) -> None:
    """Push images to a registry; default: all that exist here.

    Docker's own configuration has the credentials: `docker login HOST`.
    """
    from toolchain.images.engine import connect
    from toolchain.images.registry import exchange

    where = exchange.checked_registry(registry)
    with connect() as engine:
        report(
            named_or_here(engine, names),
            lambda image: exchange.push(engine, image, where, note).to_json(),
            {"REFERENCE": lambda row: row["reference"]},
        )


@image.command("pull", short_help="Pull images from a registry.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete.images)
@click.option(
    "--registry",
    metavar="HOST[:PORT][/PREFIX]",
    required=True,
    help="Registry to pull from; an image is HOST[:PORT][/PREFIX]/edge-toolchain/NAME there.",
)
@output_options
def pull(names: tuple[str, ...], registry: str) -> None:
    """Pull images from a registry in place of local ones; default: all but optional ones.

    Docker's own configuration has the credentials: `docker login HOST`.
    """
    from toolchain.images.catalogue import usual
    from toolchain.images.engine import connect
    from toolchain.images.registry import exchange

    where = exchange.checked_registry(registry)
    with connect() as engine:
        report(
            named(names or usual()),
            lambda image: exchange.pull(engine, image, where, note).to_json(),
            {"REFERENCE": lambda row: row["reference"]},
        )


@image.command("bootstrap", short_help="Make the Debian that images are based on.")
@click.option("--anew", is_flag=True, help="Make it again, from today's packages.")
@output_options
def bootstrap(anew: bool) -> None:
    """Make the Debian that images are based on, from packages; or pull the pinned debian_image.

    `image build` does this by itself if it is missing.
    """
    from toolchain.images.debian.bootstrap import ensure_debian
    from toolchain.images.engine import connect

    with connect() as engine:
        name = ensure_debian(engine, note, anew=anew)
    emit({"tag": name}, lambda: click.echo(f"{name} is ready"))


class ResultError(ToolchainError):
    """The work on one image failed; `fields` are its facts for the JSON document."""

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

    def print_text() -> None:
        cells = [
            (r["name"], *("failed" if "error" in r else show(r) for show in columns.values())) for r in rows
        ]
        table(["NAME", *columns], cells)

    emit(rows, print_text)
    if failed:
        click.get_current_context().exit(failed[0].exit_code)
