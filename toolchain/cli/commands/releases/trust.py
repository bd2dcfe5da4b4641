"""`toolchain release trust`: shows and changes whose signatures boards accept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli.output import emit, note, output_options, table
from toolchain.cli.release_options import (
    KEY_FORMS,
    dry_run_option,
    expires_option,
    file_argument,
    key_option,
    threshold_options,
)
from toolchain.cli.secrets import Prompts
from toolchain.quantities import counted

if TYPE_CHECKING:
    from toolchain.releases.envelope import PublicKey
    from toolchain.releases.succession import PendingTrust
    from toolchain.releases.trust import Trust

_trust_argument = click.argument("trust", type=file_argument)
_root_key_option = key_option(f"A root key that signs: {KEY_FORMS}.")
_expires_option = expires_option("The new trust's end. Default: the old one's.")
_role_option = click.option(
    "--role",
    type=click.Choice(["root", "release", "both"]),
    default="release",
    show_default=True,
    help="What the key may sign: trusts, releases, or both.",
)


@click.group()
@output_options
def trust() -> None:
    """Show and change a trust.

    A change makes the next version, signed by enough root keys of the old version and of the new one. Until
    all of them have signed, it waits in TRUST.next: `trust sign` adds a signature.
    """


@trust.command()
@_trust_argument
@output_options
def show(trust: Path) -> None:
    """Show a trust's keys and thresholds, and the version that waits for signatures."""
    from toolchain.errors import UsageError
    from toolchain.releases.succession import pending_path, read_pending
    from toolchain.releases.trust import MADE_BY, read_trust

    pending = read_pending(trust)
    if pending is None or trust.exists():
        newest = read_trust(trust).newest
        document = {"trust": str(trust.absolute()), **_described(newest)}
    else:
        document, newest = {}, None
    if pending is not None:
        document["pending"] = _pending_document(pending)
    if not document:
        raise UsageError(f"there is no trust {trust}", MADE_BY)

    def tell() -> None:
        if newest is not None:
            _tell_trust(newest)
        if pending is not None:
            click.echo(f"\n{pending_path(trust)}:")
            _tell_trust(pending.trust)
            _tell_missing(pending)

    emit(document, tell)


@trust.command("add-key")
@_trust_argument
@click.argument("key")
@_role_option
@_root_key_option
@threshold_options
@_expires_option
@dry_run_option
@output_options
def add_key(trust: Path, key: str, role: str, **options: Any) -> None:
    """Add KEY, by its public half."""
    from toolchain.releases.signers.keys import find_key

    added = find_key(key).key
    _change(trust, lambda old: [*old, added], role, **options)


@trust.command("remove-key")
@_trust_argument
@click.argument("key")
@click.option(
    "--role",
    type=click.Choice(["root", "release", "both"]),
    default="both",
    show_default=True,
    help="What the key may no longer sign.",
)
@_root_key_option
@threshold_options
@_expires_option
@dry_run_option
@output_options
def remove_key(trust: Path, key: str, role: str, **options: Any) -> None:
    """Remove KEY: a file, a fingerprint, or the first digits of its id."""
    removed = _named(trust, key)
    _change(trust, lambda old: [key for key in old if key != removed], role, **options)


@trust.command()
@_trust_argument
@click.argument("old", required=False)
@click.argument("new", required=False)
@_root_key_option
@threshold_options
@_expires_option
@dry_run_option
@output_options
def rotate(trust: Path, old: str | None, new: str | None, **options: Any) -> None:
    """Replace key OLD by key NEW wherever it may sign; without keys, only renew the trust.

    If OLD is a root key, it signs the change too: give both by --key.
    """
    from toolchain.errors import UsageError
    from toolchain.releases.signers.keys import find_key

    if old is None:
        _change(trust, lambda keys: keys, "both", **options)
        return
    if new is None:
        raise UsageError(f"rotate {old}: the new key is missing", "name two keys: OLD NEW")
    before, after = _named(trust, old), find_key(new).key
    _change(trust, lambda keys: [after if key == before else key for key in keys], "both", **options)


@trust.command()
@_trust_argument
@_root_key_option
@dry_run_option
@output_options
def sign(trust: Path, keys: tuple[str, ...], dry_run: bool) -> None:
    """Sign the version that waits in TRUST.next."""
    from toolchain.errors import UsageError
    from toolchain.releases.succession import pending_path, read_pending

    pending = read_pending(trust)
    if pending is None:
        raise UsageError(
            f"nothing waits for signatures: there is no {pending_path(trust)}",
            "`toolchain release trust add-key`, remove-key or rotate makes a new version",
        )
    _sign(pending, keys, dry_run)


def _named(trust: Path, name: str) -> PublicKey:
    """Return the key of a trust that a user names by a file, a fingerprint or its id."""
    from toolchain.releases.signers.keys import find_key
    from toolchain.releases.succession import known_key
    from toolchain.releases.trust import read_trust

    newest = read_trust(trust).newest
    return known_key(newest, find_key(name).key.keyid if Path(name).exists() else name)


def _change(
    path: Path,
    change: Callable[[list[PublicKey]], list[PublicKey]],
    role: str,
    keys: tuple[str, ...],
    dry_run: bool,
    expires: int | None,
    **thresholds: int | None,
) -> None:
    from toolchain.releases.succession import ROLES, begin, changed_trust, check_expiry
    from toolchain.releases.trust import read_trust

    chain = read_trust(path)
    roles: Iterable[str] = ROLES if role == "both" else (role,)
    trust = changed_trust(chain.newest, change, roles, expires=expires, **thresholds)
    check_expiry(trust.expires)
    _sign(begin(path, trust, chain), keys, dry_run)


def _sign(pending: PendingTrust, keys: tuple[str, ...], dry_run: bool) -> None:
    from toolchain.releases.signers.keys import need_signer

    if not dry_run:
        pending = pending.signed_by([need_signer(name, Prompts()) for name in keys]).settle()
    emit_pending(pending, dry_run)


def emit_pending(pending: PendingTrust, dry_run: bool) -> None:
    """Print a trust that was made or signed, and whose signatures it still needs."""
    document = {"trust": str(pending.path.absolute()), "dry_run": dry_run, **_pending_document(pending)}

    def tell() -> None:
        _tell_trust(pending.trust)
        if dry_run:
            click.echo("nothing was written")
        elif not pending.missing:
            click.echo(f"wrote {pending.path}")
        else:
            click.echo(f"wrote {pending.file}, which waits for signatures")
            _tell_missing(pending)

    emit(document, tell)


def _pending_document(pending: PendingTrust) -> dict[str, Any]:
    missing = pending.missing
    return {
        **_described(pending.trust),
        "complete": not missing,
        "file": str((pending.file if missing else pending.path).absolute()),
        "missing": [
            {
                "version": signatures.version,
                "signatures": signatures.have,
                "threshold": signatures.need,
                "may_sign": [key.fingerprint for key in signatures.may_sign],
            }
            for signatures in missing
        ],
    }


def _described(trust: Trust) -> dict[str, Any]:
    return {
        "version": trust.version,
        "expires": trust.expires,
        "root_threshold": trust.root.threshold,
        "threshold": trust.release.threshold,
        "keys": [
            {
                "keyid": trusted.keyid,
                "fingerprint": trusted.key.fingerprint,
                "root": trusted.keyid in trust.root.keyids,
                "release": trusted.keyid in trust.release.keyids,
            }
            for trusted in trust.keys
        ],
    }


def _tell_trust(trust: Trust) -> None:
    from toolchain.releases.trust import day

    document = _described(trust)
    table(
        ["FINGERPRINT", "KEY ID", "ROOT", "RELEASE"],
        [
            (k["fingerprint"], k["keyid"][:16], *("yes" if k[role] else "no" for role in ("root", "release")))
            for k in document["keys"]
        ],
    )
    click.echo(
        f"version {trust.version}, until {day(trust.expires)}; root: {trust.root.threshold} of "
        f"{len(trust.root.keyids)}, release: {trust.release.threshold} of {len(trust.release.keyids)}"
    )


def _tell_missing(pending: PendingTrust) -> None:
    for missing in pending.missing:
        may = ", ".join(key.fingerprint for key in missing.may_sign)
        click.echo(
            f"root keys of version {missing.version}: {missing.have} of "
            f"{counted(missing.need, 'signature')}; may sign: {may}"
        )
    note(f"hint: toolchain release trust sign {pending.path} --key KEY")
