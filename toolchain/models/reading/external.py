"""Reads external data: the tensors that an ONNX file stores in other files."""

from __future__ import annotations

import math
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from toolchain.errors import UsageError
from toolchain.files.plain import read_plain
from toolchain.foreign import shortened
from toolchain.models.walk import tensors_of

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
