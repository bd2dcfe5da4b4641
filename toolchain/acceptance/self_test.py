"""The step with edge-rt's own self-test: it installs a release in a folder that is then removed."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import get_args

from nacl.signing import SigningKey

from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.context import AcceptContext
from toolchain.acceptance.document import rounded
from toolchain.acceptance.found import SelfTestFound
from toolchain.acceptance.leaving import FIELD
from toolchain.acceptance.networks import absent, unreal
from toolchain.acceptance.step import StepEnd
from toolchain.boards.edge_rt.install import command
from toolchain.errors import ToolchainError
from toolchain.foreign import last_line
from toolchain.releases.keys import PublicKey
from toolchain.releases.signed import SignedRelease
from toolchain.releases.signing import SignRequest, add_signatures, prepare
from toolchain.releases.stream import stream_head
from toolchain.releases.successor import first_trust
from toolchain.rollouts.answers import InstallLine, InstallStep
from toolchain.rollouts.exchange import Told, send_release

_DAY_S = 86_400
_ANSWER_S = 60.0
_BILLION = 1e9


@dataclass(frozen=True)
class OneDayKey:
    """A private key that is in this process's memory alone."""

    private: SigningKey

    @property
    def key(self) -> PublicKey:
        """The public half of the key."""
        return PublicKey(self.private.verify_key.encode())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        return self.private.sign(message).signature


def self_test(context: AcceptContext, choice: NetworkChoice, kind: str) -> StepEnd:
    """Let edge-rt check, unpack, test and activate a release as boards in the field do.

    The key is drawn for this step; the board's own trust and releases are in another folder.
    """
    if gone := absent(context, kind):
        return gone
    signer = OneDayKey(SigningKey.generate())
    until = int(time.time()) + _DAY_S
    request = SignRequest(
        version="0.0.1",
        expires=until,
        app="acceptance",
        classes=(context.board.record_class,),
        unverified=True,
    )
    built = context.built(choice, kind, keep=True)
    signed = add_signatures(prepare(built.bundle, request), [signer])
    trust = first_trust([signer.key], [signer.key], 1, 1, until).enveloped().signed_by(signer, "the trust")
    context.note(f"letting edge-rt test {choice.name}")
    try:
        _trust(context, trust.to_bytes())
        line = _install(context, signed)
    finally:
        with contextlib.suppress(ToolchainError):  # `remove_what_came` tries again
            context.board.transport.remove(FIELD)
    if line.end != "installed" or line.test is None or line.test.error_ppb is None:
        context.note(f"self-test: {line.cause.message if line.cause else line.end}")
        step = (
            line.cause.step if line.cause and line.cause.step in get_args(InstallStep) else "an unknown step"
        )
        return StepEnd("failed", f"edge-rt did not install its release: {step} failed", wrong=step == "test")
    found = SelfTestFound(
        network=choice.name,
        error=rounded(line.test.error_ppb / _BILLION),
        latency_ms=rounded(line.test.latency_us / 1e3),
        memory_mib=rounded(line.test.memory_kib / 1024),
        runs=line.test.runs,
    )
    return StepEnd("passed", unreal(context, kind), found)


def _trust(context: AcceptContext, trust: bytes) -> None:
    program = context.installed().program
    completed = context.board.transport.run(
        [program, "trust", "--field", FIELD, "--first"], input=trust, timeout=_ANSWER_S
    )
    if completed.returncode != 0:
        said = last_line(completed.stdout if completed.stdout.strip() else completed.stderr)
        raise ToolchainError(
            f"`edge-rt trust` failed: {said}", "see its disk and clock: `toolchain board status`"
        )


def _install(context: AcceptContext, signed: SignedRelease) -> InstallLine:
    board = context.board
    argv = command(
        context.installed().program, "install", "-", "--field", FIELD, only_device=board.only_device
    )
    head = stream_head(signed, board_class=board.record_class)
    with contextlib.closing(board.transport.talk(argv)) as dialogue:
        return send_release(dialogue, signed, head, board.name, Told())
