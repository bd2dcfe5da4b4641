"""Options that the commands of `toolchain release` share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from toolchain.cli.options import Moment

Function = TypeVar("Function", bound=Callable[..., Any])

KEY_FORMS = (
    "an OpenSSH ed25519 file; its .pub if the private half is in the ssh-agent; agent:SHA256:…; or pkcs11:… "
    "(needs edge-toolchain[hsm])"
)

file_argument = click.Path(path_type=Path)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Only say what would be written; asks for no secret."
)

allowed_keys_option = click.option(
    "--trust",
    type=file_argument,
    required=True,
    metavar="FILE",
    help="A trust file, or an OpenSSH public key that must have signed.",
)


class Day(Moment):
    """A day or time, as whole seconds since 1970."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds since 1970."""
        if isinstance(value, int):
            return value
        return int(datetime.fromisoformat(super().convert(value, param, ctx)).timestamp())


def expires_option(help_text: str) -> Callable[[Function], Function]:
    """Add `--expires`, in seconds since 1970."""
    return click.option("--expires", type=Day(), metavar="DATE", help=help_text)


def key_option(help_text: str) -> Callable[[Function], Function]:
    """Add `--key`, which may be given several times; passed as `keys`."""
    return click.option(
        "--key",
        "keys",
        metavar="K",
        multiple=True,
        required=True,
        shell_complete=_complete_file,
        help=help_text,
    )


def threshold_options(function: Function) -> Function:
    """Add `--threshold` and `--root-threshold`."""
    number = click.IntRange(min=1)
    root = click.option(
        "--root-threshold", type=number, metavar="N", help="How many root keys must sign a trust."
    )
    release = click.option(
        "--threshold", type=number, metavar="N", help="How many release keys must sign a release."
    )
    return release(root(function))


def _complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
