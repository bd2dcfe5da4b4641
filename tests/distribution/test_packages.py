"""What wheel and sdist hold, and that equal sources are equal bytes."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.distribution.conftest import MADE
from toolchain import __version__
from tools.distribution.building import BuildError, Packages, build_packages, build_wheel
from tools.distribution.tree import ROOT, copy_tree, git

pytestmark = pytest.mark.slow  # builds packages

INFO = f"edge_toolchain-{__version__}.dist-info"
LARGEST_MIB = 4  # of the wheel


def known() -> set[str]:
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_has_the_package_its_tables_and_nothing_else(packages: Packages) -> None:
    wanted = {name for name in known() if name.startswith("toolchain/")}
    for folder in ("boards", "docker"):
        found = (name for name in known() if name.startswith(f"{folder}/"))
        wanted |= {f"toolchain/{folder}_shipped/{name.removeprefix(f'{folder}/')}" for name in found}
    wanted.add("toolchain/docker_shipped/requirements.lock")
    info = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE")
    assert names(packages.wheel) == wanted | {f"{INFO}/{name}" for name in info}
    assert {"toolchain/native/libsodium/LICENSE", "toolchain/reports/page.html.j2"} <= wanted
    assert packages.wheel.stat().st_size < LARGEST_MIB << 20


def test_the_version_stands_in_one_place(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as archive:
        metadata = message_from_bytes(archive.read(f"{INFO}/METADATA"))
    assert metadata["Version"] == __version__
    assert packages.wheel.name == f"edge_toolchain-{__version__}-py3-none-any.whl"
    assert packages.sdist.name == f"edge_toolchain-{__version__}.tar.gz"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project and project["dynamic"] == ["version"]


def test_the_metadata_says_what_is_needed_and_under_which_licence(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as archive:
        metadata = message_from_bytes(archive.read(f"{INFO}/METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {"postgres", "fleet", "hsm", "tflite", "cuda"} <= set(metadata.get_all("Provides-Extra"))
    needs = metadata.get_all("Requires-Dist")
    assert {"apache-tvm==0.27.0.post1", "click>=8.1"} <= set(needs)
    assert not [line for line in needs if "://" in line or "@" in line]


def test_no_file_names_a_folder_of_the_machine_that_built_it(packages: Packages, tmp_path: Path) -> None:
    here = [str(ROOT).encode(), str(packages.wheel.parent.parent).encode(), str(Path.home()).encode()]
    shutil.unpack_archive(packages.sdist, tmp_path / "sdist")
    shutil.unpack_archive(packages.wheel, tmp_path / "wheel", "zip")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 1500
    for path in files:
        content = path.read_bytes()
        assert not [folder for folder in here if folder in content], path


def test_the_sdist_has_no_more_than_git_and_no_tests(packages: Packages) -> None:
    with tarfile.open(packages.sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert found - {"PKG-INFO"} <= known()
    assert {
        "pyproject.toml",
        "LICENSE",
        "NOTICE",
        "README.md",
        "CHANGELOG.md",
        "docs/howto/install.md",
    } <= found
    assert {"tools/deps.sh", "tools/docker.sh", "docs/examples/edge_example.c"} <= found
    assert not [name for name in found if name.startswith(("tests/", "benchmarks/"))]


def test_everything_says_the_same_time_owner_and_permissions(packages: Packages) -> None:
    executable = {"toolchain/releases/mender/edge-bundle", "toolchain/docker_shipped/base/toolchain.sh"}
    with zipfile.ZipFile(packages.wheel) as archive:
        entries = archive.infolist()
    assert len({entry.date_time for entry in entries}) == 1
    modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in entries}
    assert set(modes.values()) <= {0o644, 0o755}
    assert {modes[name] for name in executable} == {0o755} and modes["toolchain/__init__.py"] == 0o644
    with tarfile.open(packages.sdist) as archive:
        said = {(member.uid, member.gid, member.uname, member.mtime) for member in archive}
    assert said == {(0, 0, "", MADE)}


def test_equal_sources_are_equal_bytes_wherever_and_whenever(packages: Packages, tmp_path: Path) -> None:
    """Build again elsewhere, later, from files of another time and mode; and the wheel from the sdist."""
    source = copy_tree(tmp_path / "a" / "longer" / "path")
    for path in source.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (1e9, 1e9))
    (source / "toolchain" / "__pycache__").mkdir()
    (source / "toolchain" / "__pycache__" / "junk.pyc").write_bytes(b"junk")
    again = build_packages(source, tmp_path / "again", MADE)
    assert again.wheel.read_bytes() == packages.wheel.read_bytes()
    assert again.sdist.read_bytes() == packages.sdist.read_bytes()
    shutil.unpack_archive(packages.sdist, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert build_wheel(unpacked, tmp_path / "third", MADE).read_bytes() == packages.wheel.read_bytes()


def test_the_extra_cuda_is_what_the_image_has() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = (ROOT / "docker" / "cuda" / "requirements.lock").read_text()
    locked = {f"{name}=={version}" for name, version in re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)}
    extra = set(project["optional-dependencies"]["cuda"])
    assert extra < locked
    assert {line.split("==")[0] for line in locked - extra} == {"cuda-pathfinder"}  # of cuda-bindings


def test_what_cannot_be_built_says_why(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "nothing"\ndynamic = ["version"]\n')
    with pytest.raises(BuildError, match=r"hatchling cannot build .*version"):
        build_wheel(tmp_path, tmp_path / "dist", MADE)
