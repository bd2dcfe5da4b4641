"""`toolchain release sign`: signs a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.options import Finite, bundle_argument
from toolchain.cli.output import emit, note, output_options
from toolchain.cli.release_options import KEY_FORMS, dry_run_option, expires_option, key_option
from toolchain.cli.secrets import Prompts

if TYPE_CHECKING:
    from toolchain.releases.signed_release import SignedRelease


@click.command()
@bundle_argument
@key_option(f"A key that signs: {KEY_FORMS}. Several add up.")
@click.option(
    "--version", metavar="V", help="Semantic version, such as 2.0.0; boards go to newer ones alone."
)
@expires_option("After it, no board installs the release.")
@click.option("--app", metavar="NAME", help="Name of the application. Default: the network's.")
@click.option(
    "--classes",
    metavar="C,…",
    shell_complete=complete.classes,
    help="Board classes that may install it; CLASS+emulated for emulated boards. Default: the bundle's.",
)
@click.option(
    "--latency-ms",
    type=Finite(0, min_open=True),
    metavar="X",
    help="Largest median latency of the self-test on the board.",
)
@click.option(
    "--memory-mib",
    type=Finite(0, min_open=True),
    metavar="X",
    help="Largest peak memory of the self-test on the board.",
)
@click.option(
    "--runs", type=click.IntRange(1, 10_000), metavar="N", help="Runs of the self-test. Default: 5."
)
@click.option("--unverified", is_flag=True, help="Sign a bundle that no board of its class verified.")
@click.option(
    "--provenance",
    metavar="NAME=TEXT",
    multiple=True,
    help="One more line of origin, such as commit=4f2a91; model, image and versions are there already.",
)
@dry_run_option
@output_options
def sign(
    bundle: Path,
    keys: tuple[str, ...],
    classes: str | None,
    provenance: tuple[str, ...],
    dry_run: bool,
    **options: Any,
) -> None:
    """Sign a bundle, and write BUNDLE.release beside it.

    If there is a release, its signatures stay and new ones are added over the same bytes. The bundle must
    have passed `toolchain verify` on a board of each of its classes.
    """
    from toolchain.bundles.read import read_bundle
    from toolchain.releases.signature import SignRequest, add_signatures, prepare
    from toolchain.releases.signers.keys import find_key, need_signer

    named = tuple(name.strip() for name in classes.split(",")) if classes is not None else ()
    request = SignRequest(classes=named, provenance=_pairs(provenance), **options)
    release = prepare(read_bundle(bundle), request)
    if dry_run:
        for key in keys:
            find_key(key)
    else:
        release = add_signatures(release, [need_signer(key, Prompts()) for key in keys])
    _emit(release, dry_run)


def _pairs(arguments: tuple[str, ...]) -> dict[str, str]:
    from toolchain.errors import UsageError

    pairs: dict[str, str] = {}
    for pair in arguments:
        name, separator, text = pair.partition("=")
        if not separator or not name or not text or name in pairs:
            raise UsageError(f"--provenance {pair}: not a new NAME=TEXT", "such as commit=4f2a91")
        pairs[name] = text
    return pairs


def _emit(release: SignedRelease, dry_run: bool) -> None:
    from toolchain.releases.signed_release import describe, summary

    def tell() -> None:
        for line in summary(release):
            click.echo(line)
        click.echo("nothing was written" if dry_run else f"wrote {release.file}")
        if release.release.verified is None:
            note("warning: no board of its class verified it; `deploy` needs --allow-unverified")

    emit({**describe(release), "dry_run": dry_run}, tell)
