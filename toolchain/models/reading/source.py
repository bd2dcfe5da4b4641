"""Reads the source: a zoo network, an `.onnx` or `.tflite` file, as a graph with its weights inside."""

from __future__ import annotations

import difflib
import hashlib
import math
import stat
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from toolchain.errors import UsageError
from toolchain.files.plain import read_plain
from toolchain.foreign import shortened
from toolchain.models.foreign_formats import FOREIGN, SAVED_MODEL, export_first
from toolchain.models.options import ModelOptions, format_shape
from toolchain.models.reading.order import put_in_order
from toolchain.models.spec import MOST_ELEMENTS
from toolchain.models.tflite.convert import read_tflite
from toolchain.models.tflite.schema import is_tflite
from toolchain.models.walk import all_names, tensors_of
from toolchain.models.zoo import ZOO, ZooNetwork
from toolchain.models.zoo.graph import GraphBuilder

# Lowers the version of the file format to one that onnxruntime accepts.

NEWEST = 13
"""The newest version that the pinned onnxruntime accepts; it refuses newer files, whatever their content."""


def declare_known_ir(model: onnx.ModelProto, origin: str) -> None:
    """Lower the IR version of `model` to one that onnxruntime accepts.

    Later versions only added tensor types; an error about such a type names it.

    Raises
    ------
    UsageError
        The version is newer than the installed onnx, so its meaning is unknown.
    """
    if not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise UsageError(
            f"{origin} has version {model.ir_version} of ONNX's file format (ir_version); known are 1 to "
            f"{onnx.IR_VERSION}",
            f"export it again with an older onnx; or, if it holds nothing newer, in Python: "
            f"m = onnx.load(FILE); m.ir_version = {NEWEST}; onnx.save(m, FILE)",
        )
    model.ir_version = min(model.ir_version, NEWEST)


# Reads external data: the tensors that an ONNX file stores in other files.

LARGEST = 2**31 - 1
"""Bytes of one protobuf message at most (protobuf's own limit); onnx and onnxruntime take networks as one."""


def read_external_data(proto: onnx.ModelProto, path: Path) -> list[tuple[str, bytes]]:
    """Load external data into `proto`; return pairs of location and content of the files read.

    Parameters
    ----------
    proto
        The model; changed in place.
    path
        Its file; locations are relative to its folder.

    Raises
    ------
    UsageError
        A file is missing, outside the model's folder, or shorter than its tensors.
    """
    files: dict[str, bytes] = {}
    total = proto.ByteSize() + sum(_declared(tensor) for tensor in tensors_of(proto))
    if total > LARGEST:
        raise UsageError(
            f"{path}: with its external data it has {total} bytes; at most {LARGEST} can be built",
            "export the network in parts, or with weights in float16 or int8",
        )
    for tensor in tensors_of(proto):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if location not in files:
            files[location] = _read_beside(path, location)
        tensor.raw_data = _slice(files[location], entries, tensor, path)
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]
    return sorted(files.items())


def _declared(tensor: TensorProto) -> int:
    """Return how many bytes a tensor takes in another file, as its shape or its entry says."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return 0
    told = next((entry.value for entry in tensor.external_data if entry.key == "length"), "")
    try:
        return max(0, int(told) if told else math.prod(tensor.dims) * _item(tensor))
    except ValueError:
        return 0  # refused where it is read


def _item(tensor: TensorProto) -> int:
    try:
        return int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except KeyError:
        return 0


def _read_beside(path: Path, location: str) -> bytes:
    folder = path.parent.resolve()
    try:
        file = (folder / location).resolve()  # follows links: the target must be inside too
    except (ValueError, OSError) as error:  # a NUL in the name; a loop of links
        raise UsageError(
            f"{path}: its external data {shortened(repr(location))} is no name of a file",
            "export the network again, with external data beside it",
        ) from error
    if not location or not file.is_relative_to(folder):
        raise UsageError(
            f"{path}: its external data {shortened(repr(location))} lies outside the folder of the model",
            "export the network again, with external data beside it",
        )
    try:
        return read_plain(file)
    except OSError as error:
        raise UsageError(
            f"{path}: its external data {shortened(str(file))} cannot be read: {error.strerror}",
            f"put {shortened(location)} beside {path.name}",
        ) from error


def _slice(data: bytes, entries: dict[str, str], tensor: TensorProto, path: Path) -> bytes:
    location = entries["location"]
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(len(data) - offset)))
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"{path}: tensor {tensor.name!r} has a broken entry for {location}: {error}"
        ) from error
    # numpy's own types only: the size of ml_dtypes' packed types does not follow from their item size
    expected = math.prod(tensor.dims) * dtype.itemsize if dtype.kind in "fiub" else length
    if offset < 0 or length != expected or offset + length > len(data):
        raise UsageError(
            f"{path}: its external data {location} is truncated or foreign: tensor {tensor.name!r} needs "
            f"{expected} bytes from {offset}, the file has {len(data)}",
            f"copy {location} again",
        )
    return data[offset : offset + length]


ZOO_PREFIX = "zoo:"
ENDINGS = (".onnx", ".tflite")
"""Of files that are read."""

_PAGE = (
    "a page of a web site",
    "download the file itself: on GitHub and Hugging Face by the button `download` or the raw link",
)
_OTHERS = (
    (b"version https://git-lfs", "a pointer of Git LFS", "fetch the file that it stands for: git lfs pull"),
    (b"<!doctype html", *_PAGE),
    (b"<html", *_PAGE),
    (b"pk\x03\x04", "a zip archive", "unpack it and name the .onnx file in it: unzip {file}"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it: gunzip {file}, or tar xf {file}"),
    (b"ORTM", "in onnxruntime's own format (.ort)", "take the .onnx file that it was made from"),
)
"""First bytes of what people have in an ONNX file's place -> what it is, and what to do."""


@dataclass(frozen=True)
class Source:
    """An original graph.

    Attributes
    ----------
    name
        Short name: the zoo's, or the file's without its ending.
    origin
        `zoo:NAME` or the file's absolute path.
    proto
        The graph with its weights inside.
    sha256
        Digest of the file and its external data, or of the zoo's graph.
    said
        What `proto` is, in words.
    """

    name: str
    origin: str
    proto: onnx.ModelProto
    sha256: str
    said: str = "the file as it is given"


def read_source(source: str, options: ModelOptions) -> Source:
    """Read `zoo:NAME`, a bare zoo name or the path of an `.onnx` or `.tflite` file.

    Raises
    ------
    UsageError
        The network does not exist; or the file is missing, unreadable, of neither form, truncated or lacks
        external data. For another framework's file, the hint says how to convert it.
    MissingError
        It is a `.tflite` file, and the package that reads its schema is not installed.
    """
    if source.startswith(ZOO_PREFIX):
        return _from_zoo(source.removeprefix(ZOO_PREFIX), options)
    path = Path(source)
    if source in ZOO and not _exists(path):
        return _from_zoo(source, options)
    if path.suffix not in (*ENDINGS, *FOREIGN) and not _exists(path):
        raise _unknown(source)
    try:
        return _from_file(path)
    except UsageError as error:
        if path.suffix in FOREIGN and _exists(path):
            raise export_first(path) from error
        raise


def is_zoo(source: str) -> bool:
    """Whether a source names a network of the zoo, or what is meant as one."""
    return source.startswith(ZOO_PREFIX) or (source in ZOO and not _exists(Path(source)))


def _unknown(name: str) -> UsageError:
    names = [ZOO_PREFIX + network for network in ZOO]
    near = difflib.get_close_matches(name, [*names, *ZOO], n=1)
    meant = f"did you mean {near[0]!r}? or " if near else ""
    known = f"use one of {', '.join(names)}, or the path of a file that ends in {' or '.join(ENDINGS)}"
    return UsageError(f"unknown model {name!r}", meant + known)


def _from_zoo(name: str, options: ModelOptions) -> Source:
    if name not in ZOO:
        raise _unknown(ZOO_PREFIX + name)
    network = ZOO[name]
    net = GraphBuilder(name, _zoo_shape(network, options), options.weights_seed)
    proto = net.finish(network.define(net))
    digest = hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()
    return Source(name, ZOO_PREFIX + name, proto, digest, "the zoo's network")


def _zoo_shape(network: ZooNetwork, options: ModelOptions) -> tuple[int, ...]:
    batch, channels, *spatial = network.shape
    shape = options.shapes.get(GraphBuilder.data, (options.batch or batch, channels, *spatial))
    if len(shape) != len(network.shape) or shape[1] != channels:
        axes = ",".join("THW"[-len(spatial) :])
        raise UsageError(
            f"--shape {format_shape(GraphBuilder.data, shape)}: {network.name} takes N,{channels},{axes}",
            f"for example --shape {format_shape(GraphBuilder.data, (1, channels, *spatial))}",
        )
    return shape


def _from_file(path: Path) -> Source:
    data = _read(path)
    if path.suffix == ".tflite" or is_tflite(data):
        read = read_tflite(data, str(path))
        said = "this toolchain's translation of the TensorFlow Lite file to ONNX, which onnxruntime can run"
        return Source(path.stem, str(path.resolve()), read, hashlib.sha256(data).hexdigest(), said)
    for begin, what, hint in _OTHERS:
        if data[: len(begin)].lower() == begin or data[4 : 4 + len(begin)] == begin:
            raise UsageError(f"{path} is {what}, not an ONNX file", hint.format(file=path))
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, whose home differs between its implementations
        raise UsageError(
            f"{path}: not an ONNX file, or a truncated one", "export or download it again"
        ) from error
    if not proto.ir_version or not proto.graph.node:
        raise UsageError(f"{path}: not an ONNX file: it holds no graph", "export or download it again")
    if not all(isinstance(name, str) for name in all_names(proto.graph)):
        raise UsageError(f"{path}: not an ONNX file: it holds broken names", "export or download it again")
    declare_known_ir(proto, str(path))
    put_in_order(proto, str(path))
    for tensor in tensors_of(proto):
        if abs(math.prod(tensor.dims)) > MOST_ELEMENTS:
            raise UsageError(
                f"{path}: tensor {shortened(repr(tensor.name))} is broken: no file holds what its "
                f"{len(tensor.dims)} dimensions speak of",
                "export it again",
            )
    digest = hashlib.sha256(data)
    for location, content in read_external_data(proto, path):
        digest.update(location.encode() + b"\0" + hashlib.sha256(content).digest())
    return Source(path.stem, str(path.resolve()), proto, digest.hexdigest())


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except OSError:  # Path.exists lets some through: a name too long, a folder that can't be searched
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            if _exists(path / SAVED_MODEL):
                raise export_first(path / SAVED_MODEL)
            raise UsageError(f"{path} is a folder, not an .onnx file", f"name a file in it: {path}/FILE.onnx")
        if stat.S_ISREG(status.st_mode) and status.st_size == 0:
            kind = "a TensorFlow Lite" if path.suffix == ".tflite" else "an ONNX"
            raise UsageError(f"{path} is empty, not {kind} file", "export or download it again")
        if status.st_size > LARGEST and path.suffix == ".tflite":
            raise UsageError(
                f"{path} has {status.st_size} bytes; at most {LARGEST} are read", "convert it in parts"
            )
        if status.st_size > LARGEST:
            raise UsageError(
                f"{path} has {status.st_size} bytes; a protobuf file ends at 2 GiB",
                "export it with external data",
            )
        return read_plain(path)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", "check the path") from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "check the path and its permissions"
        ) from error
