"""`toolchain release keygen`: makes a key."""

from __future__ import annotations

from pathlib import Path

import click

from toolchain.cli.output import emit, note, output_options
from toolchain.cli.release_options import file_argument
from toolchain.cli.secrets import PASSPHRASE, new_passphrase


@click.command()
@click.option(
    "-o",
    "--output",
    type=file_argument,
    default=Path("release-key"),
    show_default=True,
    metavar="FILE",
    help="The private key; its public half goes to FILE.pub.",
)
@click.option("--no-passphrase", is_flag=True, help="Protect the private key by its mode alone (0600).")
@output_options
def keygen(output: Path, no_passphrase: bool) -> None:
    """Make a key that signs releases or trusts: Ed25519, in OpenSSH's form.

    The passphrase is asked for, or taken from TOOLCHAIN_KEY_PASSPHRASE. `ssh-keygen -t ed25519` makes such
    keys too.
    """
    from toolchain.releases.signers.openssh import check_free, make_pair, public_path

    check_free(output)
    key = make_pair(output, "" if no_passphrase else new_passphrase(output))
    document = {
        "key": str(output.absolute()),
        "public": str(public_path(output).absolute()),
        "keyid": key.keyid,
        "fingerprint": key.fingerprint,
        "passphrase": not no_passphrase,
    }

    def tell() -> None:
        click.echo(
            f"private key: {output}\npublic key: {public_path(output)}\nfingerprint: {key.fingerprint}"
        )
        if no_passphrase:
            note(f"warning: who can read {output} can sign; {PASSPHRASE} or a prompt would protect it")

    emit(document, tell)
