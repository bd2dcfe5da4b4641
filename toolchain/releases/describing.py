"""Describes a release, as JSON and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolchain.quantities import counted
from toolchain.releases.moments import day
from toolchain.releases.signed import SignedRelease


def describe(signed: SignedRelease) -> dict[str, Any]:
    """Return the document of the commands that sign and verify."""
    release = signed.release
    return {
        "release": str(signed.file.absolute()),
        "bundle": str(signed.bundle.absolute()),
        "digest": signed.digest,
        "app": release.app,
        "version": release.version,
        "issued": release.issued,
        "expires": release.expires,
        "classes": list(release.classes),
        "budget": release.budget.model_dump(),
        "runs": release.test.runs,
        "compared_by_parts": signed.statement.by_parts,
        "verified": release.verified.model_dump() if release.verified else None,
        "signatures": [each.keyid for each in signed.envelope.signatures],
    }


def summary(signed: SignedRelease) -> list[str]:
    """Return the same as lines for people."""
    release = signed.release
    verified, budget = release.verified, release.budget
    limits = [
        *([f"{budget.latency_us / 1000:g} ms"] if budget.latency_us else []),
        *([f"{budget.memory_kib / 1024:g} MiB"] if budget.memory_kib else []),
    ]
    return [
        f"app: {release.app} {release.version}",
        f"digest: {signed.digest}",
        f"classes: {', '.join(release.classes)}",
        f"issued: {day(release.issued)}",
        f"expires: {day(release.expires)}",
        f"budget: {' and '.join(limits) or 'none'}, median of {counted(release.test.runs, 'run')}",
        f"verified: on {verified.board_class}, {day(verified.at)}, error {verified.error_ppb / 1e9:.2e}"
        if verified
        else "verified: no",
        *_compared(signed),
        f"signatures: {len(signed.envelope.signatures)}",
    ]


def _compared(signed: SignedRelease) -> Iterator[str]:
    """Yield how the self-test compares the outputs."""
    if not signed.statement.by_parts:
        yield "outputs: each compared as a whole, so that its large values may hide its small ones"
        return
    for number, output in enumerate(signed.release.test.outputs):
        parts = " and ".join(
            f"{len(ends)} along axis {axis}, to {', '.join(map(str, ends))}"
            for axis, ends in (output.parts or {}).items()
        )
        yield f"output {number}: compared {f'by its parts: {parts}' if parts else 'as a whole'}"
