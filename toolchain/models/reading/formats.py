"""The table of file formats that networks are read from, and of those that must be converted first.

A new format is a row here or in a plugin: docs/howto/add-a-reader.md. Commands list endings before they
import anything heavy, so a row names its reader, which is imported when a file of the format is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from toolchain.devices.plugins import FAULTS, load_row, plugins
from toolchain.errors import MissingError, UsageError
from toolchain.foreign import first_line

if TYPE_CHECKING:
    from toolchain.models.reading.network_file import Reader

PLUGINS = "edge_toolchain.formats"
"""Entry-point group of plugins: a file ending without its dot = `module:ROW`."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A format of files that networks are read from.

    Attributes
    ----------
    name
        Its name in messages, behind `article`: "ONNX".
    endings
        Endings of its files, each with its dot.
    reader
        `module:function` of its `Reader`.
    article
        "a" or "an", as `name` is pronounced.
    recognises
        Whether bytes begin a file of this format, whatever the file is called; None if only the ending tells.
    extra
        The extra of pyproject.toml with the packages that the reader imports; images install it, too. Empty:
        the reader needs nothing more.
    judged
        What the reference outputs of such a file are computed from, in words.
    again
        What to do with a file that is empty, broken or truncated.
    smaller
        What to do with a network that is too large for one file.
    """

    name: str
    endings: tuple[str, ...]
    reader: str
    article: str = "a"
    recognises: Callable[[bytes], bool] | None = None
    extra: str = ""
    judged: str
    again: str = "convert or download it again"
    smaller: str = "convert it in parts"

    def __str__(self) -> str:
        return f"{self.article} {self.name} file"

    def load_reader(self) -> Reader:
        """Import and return the reader.

        Raises
        ------
        MissingError
            The reader belongs to a plugin that cannot be loaded.
        """
        try:
            reader: Reader = EntryPoint(self.name, self.reader, PLUGINS).load()
        except FAULTS as error:
            if self in FORMATS:
                raise
            raise MissingError(
                f"the plugin for the format {self.name}: its reader, {self.reader}, cannot be loaded: "
                f"{first_line(error)}",
                "update or uninstall the plugin",
            ) from error
        return reader

    def package_missing(self, path: Path, error: ImportError) -> MissingError:
        """Return the error for a package that the reader cannot import, with the command that installs it."""
        package = error.name or self.extra or str(error)
        install = f"'edge-toolchain[{self.extra}]'" if self.extra else package
        return MissingError(
            f"{path}: {self.name} files need the Python package {package}", f"pip install {install}"
        )


def is_tflite(data: bytes) -> bool:
    """Whether bytes begin a flatbuffer with the identifier of TensorFlow Lite's schema."""
    return data[4:8] == b"TFL3"


ONNX = FileFormat(
    name="ONNX",
    article="an",
    endings=(".onnx",),
    reader="toolchain.models.reading.onnx_file:read_onnx",
    judged="the file as it is given",
    again="export or download it again",
    smaller="export it with external data",  # protobuf's messages end at 2 GiB
)

TFLITE = FileFormat(
    name="TensorFlow Lite",
    endings=(".tflite",),
    reader="toolchain.models.tflite.convert:read_file",
    recognises=is_tflite,
    extra="tflite",
    judged="this toolchain's translation of the TensorFlow Lite file to ONNX, which onnxruntime can run",
)

FORMATS: tuple[FileFormat, ...] = (ONNX, TFLITE)
"""Formats of this package; a plugin cannot replace them."""


def endings() -> tuple[str, ...]:
    """Return the endings of all files that can be read, those of this package first; no plugin is loaded."""
    built_in = [ending for row in FORMATS for ending in row.endings]
    added = {f".{plugin.kind}" for plugin in plugins(PLUGINS)} - set(built_in)
    return (*built_in, *sorted(added))


def reader_extras() -> tuple[str, ...]:
    """Return the extras of pyproject.toml that readers of this package need."""
    return tuple(row.extra for row in FORMATS if row.extra)


def readable_endings() -> str:
    """Return which files can be read, and what to install for them, for a hint."""
    extras = {ending: row.extra for row in FORMATS for ending in row.endings}
    return " or ".join(
        f"{ending} (pip install 'edge-toolchain[{extras[ending]}]')" if extras.get(ending) else ending
        for ending in endings()
    )


def format_of_ending(ending: str) -> FileFormat | None:
    """Return the format of files with an ending; None if no format has it.

    Raises
    ------
    MissingError
        The format belongs to a plugin that cannot be loaded.
    """
    for row in FORMATS:
        if ending in row.endings:
            return row
    name = ending.removeprefix(".")
    return load_row(name, PLUGINS, FileFormat, f"{ending} files", lambda row: ending in row.endings)


def format_of(path: Path, data: bytes) -> FileFormat:
    """Return the format of a file: by its content, by its ending, else ONNX, which has no identifier.

    Raises
    ------
    MissingError
        The format belongs to a plugin that cannot be loaded.
    UsageError
        The content is that of something else, such as an archive or a web page.
    """
    for row in FORMATS:
        if row.recognises and row.recognises(data):
            return row
    row = format_of_ending(path.suffix) or ONNX
    if row.recognises is None or not row.recognises(data):
        for begin, what, hint in _MISTAKEN:
            if data[: len(begin)].lower() == begin or data[4 : 4 + len(begin)] == begin:
                raise UsageError(
                    f"{path} is {what}, not {row}", hint.format(file=path, ending=row.endings[0])
                )
    return row


_PAGE = (
    "a page of a web site",
    "download the file itself: on GitHub and Hugging Face by the button `download` or the raw link",
)
_MISTAKEN = (
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file that it stands for: git lfs pull"),
    (b"<!doctype html", *_PAGE),
    (b"<html", *_PAGE),
    (b"pk\x03\x04", "a zip archive", "unpack it and name the {ending} file in it: unzip {file}"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it: gunzip {file}, or tar xf {file}"),
    (b"ORTM", "in onnxruntime's own format (.ort)", "take the .onnx file that it was made from"),
)
"""First bytes of what people have in a network's place -> what it is, and what to do."""


# Formats of other frameworks, which no reader reads, and the command that converts each to ONNX.

SAVED_MODEL = "saved_model.pb"
"""The file with the graph in a folder that TensorFlow saved."""

_TORCH = (
    "in the program that makes the network: torch.onnx.export(network, (example,), {onnx!r}, dynamo=True)"
)
_TF = "pip install tf2onnx; python -m tf2onnx.convert"
_KERAS = "in Python: keras.saving.load_model({file!r}).export({onnx!r}, format='onnx')"

CONVERTED_FIRST: dict[str, tuple[str, str]] = {
    ".pb": (
        "no ONNX file; if it is TensorFlow's",
        _TF + " --graphdef {quoted} --inputs NAME:0 --outputs NAME:0 --output {out}",
    ),
    ".pt": ("a file of PyTorch", _TORCH),
    ".pth": ("a file of PyTorch", _TORCH),
    ".ckpt": ("a file of PyTorch", _TORCH),
    ".pt2": (
        "a program of torch.export",
        "in Python: torch.onnx.export(torch.export.load({file!r}), (), {onnx!r}, dynamo=True)",
    ),
    ".safetensors": ("weights without a network", "build the network and load them; then " + _TORCH),
    ".h5": ("a file of Keras", _KERAS),
    ".keras": ("a file of Keras", _KERAS),
    ".pdmodel": (
        "a file of Paddle",
        "pip install paddle2onnx; paddle2onnx --model_dir {folder} --model_filename {quoted_name} "
        "--params_filename {params} --save_file {out}",
    ),
}
"""File ending -> what such a file is, and the command that converts it to ONNX."""


def conversion_needed(path: Path) -> UsageError:
    """Return the error that says what kind of file `path` is and how to convert it to ONNX."""
    what, how = CONVERTED_FIRST[path.suffix]
    out = path.with_suffix(".onnx").name
    if path.name == SAVED_MODEL:
        what, how = "a graph of TensorFlow", _TF + " --saved-model {folder} --output {out}"
    command = how.format(
        file=str(path),
        onnx=out,
        out=quote(out),
        quoted=quote(str(path)),
        folder=quote(str(path.parent)),
        quoted_name=quote(path.name),
        params=quote(path.with_suffix(".pdiparams").name),
    )
    return UsageError(f"{path} is {what}, which must be converted to an ONNX file first", command)
