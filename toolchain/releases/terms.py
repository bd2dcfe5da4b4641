"""Makes the statement of a release from a bundle that passed its check."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolchain.bundles import layout
from toolchain.bundles.manifest import Manifest, Tensor
from toolchain.bundles.read import Bundle, Reader
from toolchain.errors import UsageError
from toolchain.files.plain import open_plain
from toolchain.releases.envelope import dump
from toolchain.releases.statement import (
    BUNDLE,
    BY_PARTS,
    OF_WHOLES,
    Budget,
    Digest,
    NamedDigest,
    OutputTest,
    Release,
    Requires,
    RunOptions,
    SelfTest,
    Statement,
    Verified,
)

RUNS = 5
"""Runs of a self-test by default: their median is what the budget limits."""

_BILLION = 10**9


@dataclass(frozen=True)
class Terms:
    """Decisions of the operator about a release.

    Attributes
    ----------
    issued, expires
        Seconds since 1970.
    classes
        Board classes that may install it.
    latency_us, memory_kib
        Budget of the self-test; None: no limit.
    runs, timeout_s
        Runs of the self-test, and its deadline in seconds.
    device
        What computes in the self-test, as edge-rt names it.
    provenance
        More strings about its origin, such as a commit.
    """

    app: str
    version: str
    issued: int
    expires: int
    classes: Sequence[str]
    timeout_s: int
    runs: int = RUNS
    latency_us: int | None = None
    memory_kib: int | None = None
    device: str | None = None
    verified: Verified | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)


def state(bundle: Bundle, terms: Terms) -> Statement:
    """Return the statement of a release.

    Of a bundle with several shapes, boards get the library with all of them, and test it with the sample of
    the largest; samples of the others are no parts of a release.

    Raises
    ------
    UsageError
        The bundle's library is a tar of objects, which boards cannot load.
    ValidationError
        The statement would be none, such as with a version that is no semantic version.
    """
    manifest = bundle.manifest
    if manifest.format != "so":
        raise UsageError(
            f"bundle {bundle.path} has a tar of objects as its library, which a board cannot install",
            "build it again with --format so",
        )
    text = _manifest_text(bundle)
    parts = {layout.MANIFEST: (len(text), hashlib.sha256(text).hexdigest())}
    sent = manifest.members_of_largest()
    parts |= {name: (manifest.files[name].size, manifest.files[name].sha256) for name in sent}
    subjects = {BUNDLE: bundle.sha256, **{name: digest for name, (_, digest) in parts.items()}}
    release = Release(
        app=terms.app,
        version=terms.version,
        issued=terms.issued,
        expires=terms.expires,
        classes=tuple(terms.classes),
        sizes=tuple(size for size, _ in parts.values()),
        requires=Requires(
            arch=manifest.arch,
            glibc=manifest.glibc,
            tvm=manifest.tvm,
            tvm_ffi=manifest.tvm_ffi,
            features=manifest.requires,
            devices=manifest.runtime.devices,
            functions=manifest.runtime.functions,
        ),
        run=RunOptions(
            device=terms.device or manifest.runtime.device,
            threads=manifest.threads,
            cluster=manifest.cluster,
        ),
        test=SelfTest(
            runs=terms.runs,
            timeout_s=terms.timeout_s,
            outputs=tuple(_output_test(manifest, each) for each in manifest.outputs),
        ),
        budget=Budget(latency_us=terms.latency_us, memory_kib=terms.memory_kib),
        verified=terms.verified,
        provenance={**_provenance(manifest), **terms.provenance},
    )
    return Statement(
        predicateType=BY_PARTS if manifest.parts else OF_WHOLES,
        subject=tuple(
            NamedDigest(name=name, digest=Digest(sha256=sha256)) for name, sha256 in subjects.items()
        ),
        predicate=release,
    )


def parts_per_billion(error: float) -> int:
    """Return a number in billionths, rounded up."""
    return math.ceil(round(error * _BILLION, 6))


def _manifest_text(bundle: Bundle) -> bytes:
    """Return `manifest.json` as it lies in the bundle, whatever its schema version."""
    with open_plain(bundle.path) as file:
        reader = Reader(bundle.path, file, os.fstat(file.fileno()).st_size)
        return reader.content(reader.first_size())


def _output_test(manifest: Manifest, output: Tensor) -> OutputTest:
    """Return the comparison that `measuring.numerics` makes of this output."""
    tolerance = next((each for each in manifest.tolerances if each.output == output.name), None)
    parts = {str(each.axis): each.ends for each in manifest.parts if each.output == output.name}
    divided = parts if manifest.parts else None
    number = tolerance.number if tolerance else manifest.tolerance
    if tolerance is not None and tolerance.step is not None:
        return OutputTest(
            compare="steps",
            tolerance_ppb=parts_per_billion(number),
            step=repr(tolerance.step),
            values=tolerance.values,
            parts=divided,
        )
    if not np.issubdtype(np.dtype(output.dtype), np.inexact):
        return OutputTest(compare="equal", tolerance_ppb=0, step=None, values=None, parts=divided)
    softmax = output.name in manifest.model.softmax_outputs
    return OutputTest(
        compare="log-probabilities" if softmax else "values",
        tolerance_ppb=parts_per_billion(number),
        step=None,
        values=None,
        parts=divided,
    )


def _provenance(manifest: Manifest) -> dict[str, str]:
    """Return where the bundle comes from."""
    records = dump([task.model_dump(mode="json") for task in manifest.tasks])
    origin = {
        "model": manifest.model.sha256,
        "model_name": manifest.model.name,
        "model_source": manifest.model.source_name,
        "tasks": hashlib.sha256(records).hexdigest(),
        "toolchain": manifest.tool_version,
        "tvm": manifest.tvm,
        "target": manifest.target.triple,
        "built_in": manifest.engine.kind,
        "image": manifest.engine.image or "",
        "lock": manifest.engine.lock or "",
    }
    return {name: value for name, value in origin.items() if value}
