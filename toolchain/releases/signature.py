"""Signs a bundle: makes its statement, or adds a signature to the stored one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from toolchain.answers import problem
from toolchain.boards.edge_rt.apps import is_app_name
from toolchain.bundles.read import Bundle
from toolchain.errors import UsageError
from toolchain.files.atomic import write_bytes
from toolchain.files.turns import TURN_S, folder_turn
from toolchain.measuring.deadlines import deadline
from toolchain.measuring.device import simulation
from toolchain.measuring.verifications import Verification, verifications
from toolchain.profiles import load_profile
from toolchain.records.record import EMULATED
from toolchain.releases.envelope import Envelope, Signer
from toolchain.releases.signed_release import SignedRelease, compared, read_envelope, release_path
from toolchain.releases.statement import LONGEST_S, RELEASE_TYPE, Verified, Version
from toolchain.releases.terms import RUNS, Terms, parts_per_billion, state


@dataclass(frozen=True)
class SignRequest:
    """Options of a signature; None or empty: the default, or the stored release's value.

    Attributes
    ----------
    expires
        Seconds since 1970.
    latency_ms, memory_mib
        Budget of the self-test.
    unverified
        Whether to sign a bundle that no board of its class verified.
    """

    version: str | None = None
    expires: int | None = None
    app: str | None = None
    classes: tuple[str, ...] = ()
    latency_ms: float | None = None
    memory_mib: float | None = None
    runs: int | None = None
    unverified: bool = False
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def latency_us(self) -> int | None:
        """The latency's limit in microseconds."""
        return None if self.latency_ms is None else math.ceil(self.latency_ms * 1000)

    @property
    def memory_kib(self) -> int | None:
        """The memory's limit in KiB."""
        return None if self.memory_mib is None else math.ceil(self.memory_mib * 1024)


def prepare(bundle: Bundle, request: SignRequest) -> SignedRelease:
    """Return the release to sign: the stored one if there is one, else a new one without signatures.

    Raises
    ------
    UsageError
        An option is missing or wrong, differs from what is signed already, or the bundle was not verified.
    CheckError
        The stored release is for another bundle.
    """
    path = release_path(bundle.path)
    if path.exists():
        stored = compared(bundle.path, *read_envelope(bundle.path))
        _check_same(stored, request)
        return stored
    envelope = Envelope(RELEASE_TYPE, _payload(bundle, request))
    return compared(bundle.path, path, envelope)


def add_signatures(release: SignedRelease, signers: Iterable[Signer]) -> SignedRelease:
    """Sign a release and write its envelope beside the bundle, with what others signed meanwhile.

    Raises
    ------
    UsageError
        A key signed it before, or another process made or removed the release meanwhile.
    ToolchainError
        The file system refuses, or what holds the key does.
    """
    envelope, what = release.envelope, f"release {release.file}"
    for signer in signers:
        envelope = envelope.signed_by(signer, what)
    with folder_turn(release.file.parent, TURN_S, f"writing {release.file}"):
        stored = read_envelope(release.bundle)[1] if release.file.exists() else None
        if stored.payload != envelope.payload if stored else release.envelope.signatures:
            raise UsageError(
                f"{what} was {'changed' if stored else 'removed'} by another process while this one signed",
                "nothing was written; run the same command again",
            )
        envelope = stored.joined(envelope, what) if stored else envelope
        write_bytes(release.file, envelope.to_bytes() + b"\n")
    return SignedRelease(release.bundle, release.file, envelope, release.statement, release.parts)


def _payload(bundle: Bundle, request: SignRequest) -> bytes:
    manifest, now = bundle.manifest, int(time.time())
    if request.version is None or request.expires is None:
        missing = "--version" if request.version is None else "--expires"
        raise UsageError(
            f"{bundle.path} has no release yet, so {missing} is needed",
            "give --version VERSION and --expires DATE; both are signed",
        )
    try:
        version = Version(request.version).text
    except ValueError as error:
        raise UsageError(f"--version: {error}", "use three numbers, such as --version 2.0.0") from error
    if request.expires <= now:
        raise UsageError("--expires: this time is past", "give a later day, such as in three months")
    classes = request.classes or (manifest.board_class + (EMULATED if manifest.emulated else ""),)
    known = verifications(bundle.sha256)
    if not request.unverified:
        _check_verified(bundle, classes, known)
    first = known.get(classes[0])
    terms = Terms(
        app=_app(bundle, request.app),
        version=version,
        issued=now,
        expires=request.expires,
        classes=classes,
        timeout_s=_timeout_s(bundle, classes, request.runs or RUNS),
        runs=request.runs or RUNS,
        latency_us=request.latency_us,
        memory_kib=request.memory_kib,
        device=first.device if first and first.device == simulation(first.device) else None,
        verified=_verified(first) if first and set(classes) <= set(known) else None,
        provenance=request.provenance,
    )
    try:
        return state(bundle, terms).to_bytes()
    except ValidationError as error:
        raise UsageError(
            f"{bundle.path} cannot be released: {problem(error)}", "change the option that gave this"
        ) from error


def _check_verified(bundle: Bundle, classes: Iterable[str], known: Mapping[str, Verification]) -> None:
    for name in classes:
        if name in known:
            continue
        where = f"; it was on: {', '.join(sorted(known))}" if known else ""
        plain = name.removesuffix(EMULATED)
        board = "an emulated board" if name.endswith(EMULATED) else "a board"
        raise UsageError(
            f"{bundle.path} was never verified on {board} of class {plain}{where}",
            f"toolchain verify {bundle.path} --board BOARD; --classes names other classes; --unverified "
            "signs it as it is, and `deploy` then needs --allow-unverified",
        )


def _verified(verification: Verification) -> Verified:
    return Verified(
        board_class=verification.board_class,
        at=verification.at,
        error_ppb=parts_per_billion(verification.error),
        latency_us=None if verification.latency_ms is None else math.ceil(verification.latency_ms * 1000),
    )


def _app(bundle: Bundle, app: str | None) -> str:
    name = bundle.manifest.model.name if app is None else app
    if not is_app_name(name):
        where = "the network's name" if app is None else "--app"
        raise UsageError(
            f"{where} {name!r} cannot name an application",
            "give --app NAME: up to 63 of a-z, 0-9, '.', '_' and '-', first a letter or digit",
        )
    return name


def _timeout_s(bundle: Bundle, classes: Iterable[str], runs: int) -> int:
    """Return the deadline of a self-test on the slowest of the classes, in seconds."""
    manifest = bundle.manifest
    longest = math.ceil(
        max(
            deadline(
                manifest.model.flops,
                load_profile(name.removesuffix(EMULATED)),
                emulated=name.endswith(EMULATED),
                device=manifest.device,
                runs=runs + 1,
            ).seconds
            for name in classes
        )
    )
    return min(longest, LONGEST_S)


def _check_same(stored: SignedRelease, request: SignRequest) -> None:
    """Refuse options that differ from what the stored signatures are for."""
    release = stored.release
    for option, wish, value in (
        ("--version", request.version, release.version),
        ("--expires", request.expires, release.expires),
        ("--app", request.app, release.app),
        ("--classes", request.classes or None, release.classes),
        ("--latency-ms", request.latency_us, release.budget.latency_us),
        ("--memory-mib", request.memory_kib, release.budget.memory_kib),
        ("--runs", request.runs, release.test.runs),
        ("--unverified", request.unverified or None, release.verified is None),
    ):
        if wish is not None and wish != value:
            raise UsageError(
                f"{option}: release {stored.file} has another value, and what is signed cannot change",
                f"leave {option} out to add a signature; to sign the bundle anew, remove {stored.file}",
            )
    if request.provenance:
        raise UsageError(
            f"--provenance: release {stored.file} is made already", "leave it out to add a signature"
        )
