"""Writes the bill of materials of a wheel, as CycloneDX JSON.

    .venv/sbom/bin/python -m tools.distribution.bom WHEEL EPOCH OUT

It lists what requirements.lock has: `required` for everybody, `optional` for an extra, `excluded` what only
work on this project needs; and third-party sources that the wheel carries. Equal wheels and locks give equal
files.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from tools.distribution.licences import licence
from tools.distribution.locked import LOCKS, Locked, asked_for, locked, with_needs

_SCHEMA = SchemaVersion.V1_6
_PROJECT = "edge-toolchain"
_LICENCES = LicenseFactory()


def main(wheel: Path, made: int, out: Path) -> None:
    """Write the bill of a wheel that was made at that time, in seconds since 1970."""
    text = bill(wheel, made)
    if problem := JsonStrictValidator(_SCHEMA).validate_str(text):
        raise SystemExit(f"bom: not valid: {problem}")
    out.write_text(text + "\n")


def bill(wheel: Path, made: int) -> str:
    """Return the bill of a wheel."""
    entries = locked()
    version, digest = wheel.name.split("-")[1], hashlib.sha256(wheel.read_bytes()).hexdigest()
    project = Component(
        name=_PROJECT,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=_PROJECT,
        purl=PackageURL("pypi", name=_PROJECT, version=version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        licenses=[_LICENCES.make_from_string("Apache-2.0")],
        components=list(_carried(entries)),
    )
    found = {each: _component(each, scope) for each, scope in _scopes(entries)}
    bom = Bom(
        serial_number=uuid5(NAMESPACE_URL, digest),
        metadata=BomMetaData(component=project, timestamp=datetime.fromtimestamp(made, UTC)),
        components=found.values(),
        properties=[Property(name=f"{_PROJECT}:requirements.lock", value=_digest(LOCKS[0]))],
    )
    direct = set().union(*asked_for().values())
    bom.register_dependency(project, [c for each, c in found.items() if each.name in direct])
    for each, component in found.items():
        bom.register_dependency(component, [c for other, c in found.items() if each.name in other.parents])
    return make_outputter(bom, OutputFormat.JSON, _SCHEMA).output_as_string(indent=1)


def _scopes(entries: list[Locked]) -> Iterator[tuple[Locked, ComponentScope]]:
    asked = asked_for()
    required = with_needs(asked.pop(""), entries)
    asked.pop("dev")
    optional = with_needs(set().union(*asked.values()), entries)
    for each in entries:
        if each.name in required:
            yield each, ComponentScope.REQUIRED
        elif each.name in optional:
            yield each, ComponentScope.OPTIONAL
        else:
            yield each, ComponentScope.EXCLUDED


def _component(entry: Locked, scope: ComponentScope) -> Component:
    return Component(
        name=entry.name,
        version=entry.version,
        bom_ref=f"{entry.name}=={entry.version}",
        purl=PackageURL("pypi", name=entry.name, version=entry.version),
        scope=scope,
        licenses=[_LICENCES.make_from_string(licence(entry.name))],
        properties=[Property(name=f"{_PROJECT}:marker", value=entry.marker)] if entry.marker else [],
    )


def _carried(entries: list[Locked]) -> Iterator[Component]:
    """Yield what others wrote and the wheel carries: files of libsodium, from PyNaCl's source (NOTICE)."""
    (pynacl,) = (each for each in entries if each.name == "pynacl")
    yield Component(
        name="libsodium",
        version=f"as in PyNaCl {pynacl.version}",
        bom_ref="libsodium",
        purl=PackageURL("pypi", name="pynacl", version=pynacl.version, subpath="src/libsodium"),
        licenses=[_LICENCES.make_from_string("ISC")],
        copyright="Copyright (c) 2013-2026 Frank Denis",
        properties=[Property(name=f"{_PROJECT}:folder", value="toolchain/native/libsodium")],
    )


def _digest(file: Path) -> str:
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
