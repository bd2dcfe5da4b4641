"""The reader of docs/howto/add-a-reader.md reads what numpy saves, in the table and as a plugin."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests import plugins
from tests.howto.page import ROOT, blocks, files_planted, run_block
from toolchain.errors import MissingError, UsageError
from toolchain.images import contents as lockfile
from toolchain.models.judging.reference import reference_outputs
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.models.reading import formats
from toolchain.models.reading.formats import FileFormat

PAGE = "add-a-reader.md"
OPTIONS = ModelOptions(batch=2)


@pytest.fixture
def row(tmp_path: Path) -> Iterator[FileFormat]:
    """Add the page's reader; return its row, which is not in the table yet."""
    with files_planted(PAGE, tmp_path / "planted"):
        _reader, text = blocks(PAGE)
        page_row: FileFormat = run_block(f"ROW = {text}", FileFormat=FileFormat)["ROW"]
        yield page_row


@pytest.fixture
def layers() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    shapes = {"w0": (5, 7), "b0": (7,), "w1": (7, 3), "b1": (3,)}
    return {name: generator.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def saved(file: Path, layers: dict[str, np.ndarray]) -> Path:
    with file.open("wb") as stream:  # a path would get numpy's own ending
        np.savez(stream, **layers)
    return file


def check_computes(path: Path, layers: dict[str, np.ndarray]) -> None:
    model = load_model(str(path), OPTIONS)
    assert (model.name, [spec.shape for spec in model.inputs]) == ("net", [(2, 5)])
    x = np.random.default_rng(4).normal(size=(2, 5)).astype("float32")
    hidden = np.maximum(x @ layers["w0"] + layers["b0"], 0)
    (output,) = reference_outputs(model, {"x": x}).values()
    np.testing.assert_allclose(output, hidden @ layers["w1"] + layers["b1"], rtol=1e-5, atol=1e-5)


def test_row_in_the_table_reads_the_format_by_ending_and_content(
    row: FileFormat, layers: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "net.npz", layers)
    with pytest.raises(UsageError, match="is a zip archive, not an ONNX file"):
        load_model(str(path), OPTIONS)
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))
    check_computes(path, layers)
    check_computes(saved(tmp_path / "net.weights", layers), layers)
    assert formats.endings() == (".onnx", ".tflite", ".npz")
    with pytest.raises(UsageError, match="there is no file"):
        load_model(str(tmp_path / "gone.npz"), OPTIONS)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"w1": np.zeros((6, 3), "float32")}, "w1 and b1 do not fit"), ({"c": np.zeros(1)}, "its arrays are")],
)
def test_refuses_layers_that_do_not_fit(
    row: FileFormat,
    layers: dict[str, np.ndarray],
    change: dict[str, np.ndarray],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))
    with pytest.raises(UsageError, match=says):
        load_model(str(saved(tmp_path / "net.npz", {**layers, **change})), OPTIONS)


def test_refuses_truncated_and_compressed_files(
    row: FileFormat, layers: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))
    path = saved(tmp_path / "net.npz", layers)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UsageError, match=r"not a file of numpy\.savez, or a truncated one"):
        load_model(str(path), OPTIONS)
    with path.open("wb") as stream:
        np.savez_compressed(stream, w0=np.zeros((1000, 1000), "float32"), b0=np.zeros(1000, "float32"))
    with pytest.raises(UsageError, match=r"not a file of numpy\.savez"):
        load_model(str(path), OPTIONS)


def test_missing_package_names_the_extra_of_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edge_needy.py").write_text("def read(file):\n    import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    needy = FileFormat(
        name="needy", endings=(".needy",), reader="edge_needy:read", extra="needy", judged="its translation"
    )
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, needy))
    path = tmp_path / "net.needy"
    path.write_bytes(b"some bytes")
    with pytest.raises(MissingError, match="needy files need the Python package no_such_package") as caught:
        load_model(str(path), OPTIONS)
    assert caught.value.hint == "pip install 'edge-toolchain[needy]'"
    assert formats.reader_extras() == ("tflite", "needy")
    assert formats.readable_endings() == (
        ".onnx or .tflite (pip install 'edge-toolchain[tflite]') "
        "or .needy (pip install 'edge-toolchain[needy]')"
    )


@pytest.mark.usefixtures("row")
def test_plugin_adds_the_format_and_is_loaded_when_a_file_has_its_ending(
    layers: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = blocks(PAGE, "toml")
    ((group, points),) = tomllib.loads(entry)["project"]["entry-points"].items()
    assert group == formats.PLUGINS.group
    folder = tmp_path / "installed"
    plugins.install(folder, monkeypatch, group=group, **points)
    _reader, text = blocks(PAGE)
    (folder / "edge_perceptron.py").write_text(
        f"from toolchain.models.reading.formats import FileFormat\nFORMAT = {text}"
    )
    try:
        assert formats.endings() == (".onnx", ".tflite", ".npz")
        check_computes(saved(tmp_path / "net.npz", layers), layers)
    finally:
        plugins.forget()


def test_plugin_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.install(
        tmp_path, monkeypatch, group=formats.PLUGINS.group, odd="edge_odd:FORMAT", onnx="edge_odd:FORMAT"
    )
    (tmp_path / "edge_odd.py").write_text("FORMAT = 'no row'\n")
    try:
        (tmp_path / "net.odd").write_bytes(b"some bytes")
        with pytest.raises(
            MissingError, match=r"\.odd files come from a plugin, edge-odd, but .* no `FileFormat`"
        ):
            load_model(str(tmp_path / "net.odd"), OPTIONS)
        assert formats.endings() == (".onnx", ".tflite", ".odd"), "an ending of ours cannot be taken over"
        assert formats.format_of_ending(".onnx") is formats.ONNX
    finally:
        plugins.forget()


def test_every_reader_of_the_table_loads_and_its_extra_is_one_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for row in formats.FORMATS:
        assert callable(row.load_reader())
        assert not row.extra or row.extra in project["optional-dependencies"]
    assert set(formats.reader_extras()) < set(lockfile.EXTRAS), "images read what this host reads"
    assert not {ending for row in formats.FORMATS for ending in row.endings} & formats.CONVERTED_FIRST.keys()


def test_page_names_the_files_that_a_format_touches() -> None:
    text = (ROOT / "docs" / "howto" / PAGE).read_text().partition("## Which files")[2].partition("\nFor ")[0]
    rows = re.findall(r"^\| (?!---|file \|)", text, re.MULTILINE)
    assert len(rows) == 3
