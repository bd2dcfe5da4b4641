"""The bill of materials: everything that is locked or carried, each with its licence."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from tests.distribution.conftest import MADE
from toolchain import __version__
from tools.distribution.building import Packages
from tools.distribution.licences import TABLE, LicenceError, declared, licence
from tools.distribution.locked import asked_for, locked, with_needs
from tools.distribution.tree import ROOT

PYTHON = ROOT / ".venv" / "sbom" / "bin" / "python"  # by make sbom
NETWORKED = {"AGPL", "SSPL"}


def test_no_line_of_the_table_is_dead_or_wrong() -> None:
    names = {each.name for each in locked()}
    assert TABLE.keys() <= names, "of what is not locked any more"
    twice = TABLE.keys() & declared().keys()
    assert twice <= {each.name for each in locked() if each.marker}, "their own metadata says it now"
    assert {name: TABLE[name] for name in twice} == {name: declared()[name] for name in twice}


def test_every_locked_distribution_has_a_licence_and_none_forbids_use_by_others() -> None:
    for each in locked():
        assert not [word for word in NETWORKED if word in licence(each.name)], each.name
    with pytest.raises(LicenceError, match=r"licences\.toml"):
        licence("no-such-distribution")


def test_what_everybody_gets_is_the_lock_less_what_extras_and_work_on_this_project_need() -> None:
    asked, entries = asked_for(), locked()
    base = with_needs(asked[""], entries)
    assert {"apache-tvm", "numpy", "click", "docker", "paramiko", "cffi"} <= base
    assert not {"pytest", "psycopg", "nvidia-cuda-nvcc", "hatchling"} & base
    assert "cuda-pathfinder" in with_needs(asked["cuda"], entries)


@pytest.fixture(scope="module")
def bill(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    out = tmp_path_factory.mktemp("bill") / "bill.json"
    written = []
    for _time in range(2):
        subprocess.run(
            [PYTHON, "-m", "tools.distribution.bom", packages.wheel, str(MADE), out],
            cwd=ROOT,
            timeout=120,
            check=True,
        )
        written.append(out.read_bytes())
    assert written[0] == written[1], "equal wheels have equal bills"
    return dict(json.loads(written[0]))


@pytest.mark.slow
def test_it_is_the_wheels(bill: Mapping[str, Any], packages: Packages) -> None:
    assert bill["bomFormat"] == "CycloneDX"
    subject = bill["metadata"]["component"]
    digest = hashlib.sha256(packages.wheel.read_bytes()).hexdigest()
    assert (subject["name"], subject["version"]) == ("edge-toolchain", __version__)
    assert subject["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert subject["purl"] == f"pkg:pypi/edge-toolchain@{__version__}"


@pytest.mark.slow
def test_it_has_every_locked_distribution_with_its_licence(bill: Mapping[str, Any]) -> None:
    found = {(each["name"], each["version"]): each for each in bill["components"]}
    assert found.keys() == {(each.name, each.version) for each in locked()}
    for each in found.values():
        assert each["licenses"], each["name"]
    said = {name: each["licenses"][0] for (name, _version), each in found.items()}
    assert said["click"] == {"license": {"id": "BSD-3-Clause"}}
    assert said["tqdm"] == {"expression": "MPL-2.0 AND MIT"}
    scopes = {name: each["scope"] for (name, _version), each in found.items()}
    assert scopes["apache-tvm"] == scopes["cffi"] == "required"
    assert scopes["psycopg"] == scopes["nvidia-cuda-nvrtc"] == scopes["dask"] == "optional"
    assert scopes["pytest"] == scopes["ruff"] == "excluded"


@pytest.mark.slow
def test_it_names_the_sources_of_others_in_the_wheel(bill: Mapping[str, Any]) -> None:
    carried = {each["name"]: each for each in bill["metadata"]["component"]["components"]}
    assert carried.keys() == {"libsodium"}
    (property_,) = carried["libsodium"]["properties"]
    assert (ROOT / property_["value"] / "LICENSE").is_file()
    notice = (ROOT / "NOTICE").read_text()
    assert (
        property_["value"] in notice
        and carried["libsodium"]["copyright"].removeprefix("Copyright ") in notice
    )


def test_no_other_sources_in_the_wheel_claim_somebodys_copyright() -> None:
    files = (path for name in ("toolchain", "boards", "docker") for path in (ROOT / name).rglob("*"))
    claimed = {
        path.relative_to(ROOT).parts[:3]
        for path in files
        if path.is_file() and "__pycache__" not in path.parts and b"copyright" in path.read_bytes().lower()
    }
    assert claimed == {("toolchain", "native", "libsodium")}, (
        "name it in NOTICE and in tools/distribution/bom.py"
    )


@pytest.mark.slow
def test_it_tells_who_needs_whom(bill: Mapping[str, Any]) -> None:
    needs = {each["ref"]: set(each.get("dependsOn", [])) for each in bill["dependencies"]}
    version = {each.name: each.version for each in locked()}
    assert f"paramiko=={version['paramiko']}" in needs["edge-toolchain"]
    assert f"cffi=={version['cffi']}" in needs[f"pynacl=={version['pynacl']}"]


def test_what_writes_it_is_locked_apart_from_everybodys() -> None:
    lock = (ROOT / "tools" / "distribution" / "sbom.lock").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "cyclonedx-python-lib==" in lock and "://" not in lock
    assert "cyclonedx" not in json.dumps(project)
