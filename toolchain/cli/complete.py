"""Shell completion. It reads only names, never networks: tvm, numpy and onnx are not imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem


def models(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the networks of the zoo, or files if none matches."""
    from toolchain.models.zoo import ZOO

    names = [CompletionItem(f"zoo:{name}") for name in ZOO if f"zoo:{name}".startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


def classes(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Offer the board classes."""
    from toolchain.profiles import class_names

    return [name for name in _known(class_names) if name.startswith(incomplete)]


def emulated(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Offer the emulated boards."""
    from toolchain.boards.emulation.stored import names

    return [name for name in _known(names) if name.startswith(incomplete)]


def images(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Offer the images of the table."""
    from toolchain.images.catalogue import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


def vta_configs(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the published configurations of VTA, or files if none matches."""
    from toolchain.vta.design import SAMPLES

    names = [CompletionItem(name) for name in SAMPLES if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


def boards(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Offer boards and classes."""
    from toolchain.configuration.settings import configuration

    named = ("local", *_known(lambda: configuration().boards))
    matching = [name for name in named if name.startswith(incomplete)]
    return matching + emulated(context, parameter, incomplete) + classes(context, parameter, incomplete)


def switched_boards(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Offer the boards that have power commands."""
    from toolchain.configuration.settings import configuration

    def names() -> list[str]:
        return [name for name, entry in configuration().boards.items() if entry.power]

    return [name for name in _known(names) if name.startswith(incomplete)]


def _known(names: Callable[[], Iterable[str]]) -> list[str]:
    """Return the names; none if the configuration is broken, which the command itself reports."""
    from toolchain.errors import ToolchainError

    try:
        return list(names())
    except ToolchainError:
        return []
