"""Kinds of devices: the package's own, plugins', and broken plugins."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import plugins
from toolchain.devices.kernel import KernelModel
from toolchain.devices.kind import SEAMS, DeviceKind
from toolchain.devices.plugins import plugin_files
from toolchain.devices.table import OWN, KindTable, driver_file, find_kind, kind_names, kind_of
from toolchain.errors import MissingError
from toolchain.lowering.kernels.store import fingerprint

ROW = "from toolchain.devices.kind import DeviceKind\nNPU = DeviceKind(name={name!r}, code={code!r})\n"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    plugins.forget()
    sys.modules.pop("edge_npu", None)


def write(folder: Path, patch: pytest.MonkeyPatch, text: str) -> None:
    """Install a plugin of one module."""
    plugins.install(folder, patch, npu="edge_npu:NPU")
    (folder / "edge_npu.py").write_text(text)


def test_without_plugins_there_are_the_packages_own() -> None:
    assert kind_names() == tuple(OWN) == ("cpu", "opencl", "cuda", "vta")
    assert all(row.name == name for name, row in OWN.items())
    assert plugin_files() == []


def test_the_test_beds_that_rows_name_exist() -> None:
    assert [model.name for model in KindTable[tuple[KernelModel, ...]]("model", {}).find("opencl") or ()]
    driver = driver_file("cuda")
    assert driver is not None and driver.compiler().startswith("ziglang ")
    assert driver_file("opencl") is None and driver_file("npu") is None


def test_of_an_unknown_kind_nothing_is_known_and_nothing_fails() -> None:
    row = kind_of("npu:one")
    assert (row.name, row.compile_s, row.simulation, row.language) == ("npu", 0.0, "", None)
    assert find_kind("npu") is None


def test_a_plugins_code_is_found_by_seam_and_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    write(tmp_path, monkeypatch, ROW.format(name="npu", code={"machine": "edge_npu:NPU"}))
    assert kind_names() == (*OWN, "npu") and plugin_files() == [tmp_path / "edge_npu.py"]
    table: KindTable[object] = KindTable("machine", {"opencl": 1})
    row = find_kind("npu")
    assert isinstance(row, DeviceKind)
    assert (table.find("opencl"), table.find("npu"), table.find("vta")) == (1, row, None)
    assert KindTable[object]("dialect", {}).find("npu") is None
    first = fingerprint()
    (tmp_path / "edge_npu.py").write_text("# changed")
    assert len({before, first, fingerprint()}) == 3, "objects that it compiled are not taken for others"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_module", "cannot be loaded: No module named 'no_such_module'"),
        ("raise SystemError('why')", "cannot be loaded: why"),
        ("import sys; sys.exit('why')", "cannot be loaded: why"),
        ("NPU = 3", "edge_npu:NPU is no `DeviceKind` of that name"),
        (ROW.format(name="other", code={}), "edge_npu:NPU is no `DeviceKind` of that name"),
        (
            ROW.format(name="npu", code={"machin": "a:b"}),
            f"there is no seam machin; the seams are: {SEAMS[0]}",
        ),
    ],
)
def test_a_broken_plugin_is_named_and_harms_no_other_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    write(tmp_path, monkeypatch, text)
    assert find_kind("opencl") is OWN["opencl"] and "npu" in kind_names()
    with pytest.raises(MissingError) as raised:
        find_kind("npu")
    assert says in raised.value.message and "edge-npu" in raised.value.message
    assert "pip uninstall edge-npu" in raised.value.hint


@pytest.mark.parametrize(
    ("row", "files"),
    [
        ("edge_npu.kind:NPU", ["__init__.py", "deep.py"]),
        ("edge_npu.below.kind:NPU", ["deep.py"]),
        ("edge_npu:NPU", ["__init__.py", "deep.py"]),
        ("edge_none.kind:NPU", []),
        ("no name of a module", []),
    ],
)
def test_its_files_are_found_though_nothing_of_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, files: list[str]
) -> None:
    plugins.install(tmp_path, monkeypatch, npu=row)
    below = tmp_path / "edge_npu" / "below"
    below.mkdir(parents=True)
    (below / "deep.py").touch()
    (tmp_path / "edge_npu" / "__init__.py").write_text("raise SystemExit('why')")
    assert [file.name for file in plugin_files()] == files
    assert fingerprint() and find_kind("vta") is OWN["vta"], "builds for other devices go on"
    with pytest.raises(MissingError, match="edge-npu"):
        find_kind("npu")


def test_code_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, monkeypatch, ROW.format(name="npu", code={"machine": "edge_npu:nothing"}))
    with pytest.raises(MissingError, match=r"its machine, edge_npu:nothing, cannot be loaded: .*nothing"):
        KindTable[object]("machine", {}).find("npu")


def test_two_plugins_for_a_kind_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.install(tmp_path / "a", monkeypatch, npu="edge_npu:NPU")
    plugins.install(tmp_path / "b", monkeypatch, package="other", npu="other_npu:NPU")
    with pytest.raises(
        MissingError, match="there are several: edge_npu:NPU of edge-npu, other_npu:NPU of other-npu"
    ):
        find_kind("npu")


def test_the_howto_shows_the_toys_own_files() -> None:
    page = (plugins.ROOT / "docs" / "howto" / "add-a-device.md").read_text().partition("## As a plugin")[2]
    shown = re.findall(r"```(?:toml|python)\n(.*?)```", page, re.DOTALL)
    files = [plugins.TOY / "pyproject.toml", plugins.TOY / "edge_toy" / "kind.py"]
    assert len(shown) == len(files)
    assert all(text in file.read_text() for text, file in zip(shown, files, strict=True))
