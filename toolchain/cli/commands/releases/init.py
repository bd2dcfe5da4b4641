"""`toolchain release init`: makes the first trust."""

from __future__ import annotations

import time
from pathlib import Path

import click

from toolchain.cli.commands.releases.trust import emit_pending
from toolchain.cli.output import output_options
from toolchain.cli.release_options import (
    KEY_FORMS,
    dry_run_option,
    expires_option,
    file_argument,
    key_option,
    threshold_options,
)
from toolchain.cli.secrets import Prompts


@click.command()
@key_option(
    f"A root key: {KEY_FORMS}. A public key whose private half is not here is listed, and signs later."
)
@click.option(
    "--release-key",
    "release_keys",
    metavar="K",
    multiple=True,
    help="A key that signs releases; its public half suffices. Default: the root keys.",
)
@threshold_options
@expires_option("After it, no release is accepted by this trust. Default: in two years.")
@click.option(
    "-o",
    "--output",
    type=file_argument,
    default=Path("trust.json"),
    show_default=True,
    metavar="FILE",
    help="The trust file.",
)
@dry_run_option
@output_options
def init(
    keys: tuple[str, ...],
    release_keys: tuple[str, ...],
    threshold: int | None,
    root_threshold: int | None,
    expires: int | None,
    output: Path,
    dry_run: bool,
) -> None:
    """Make the first trust: whose signatures boards accept, and how many of them.

    Root keys sign the trust and its successors, release keys sign releases. A board gets its first trust over
    SSH (`board provision --trust FILE`), later ones by rotation alone.
    """
    from toolchain.releases.signers.keys import find_key, find_signer
    from toolchain.releases.succession import LIFETIME_S, begin, check_expiry, first_trust

    roots = [find_key(name) for name in keys]
    root = [named.key for named in roots]
    release = [find_key(name).key for name in release_keys] or root
    until = int(time.time()) + LIFETIME_S if expires is None else expires
    check_expiry(until)
    trust = first_trust(root, release, root_threshold or 1, threshold or 1, until)
    pending = begin(output, trust, None)
    if not dry_run:
        signers = [signer for named in roots if (signer := find_signer(named, Prompts()))]
        pending = pending.signed_by(signers).settle()
    emit_pending(pending, dry_run)
