"""Reads the file to which `edge-rt run` writes its outputs.

A valid file has exactly one form: the zip file that edge-rt's `npy.cc` writes for the manifest's outputs. The
expected bytes are generated here and compared, rather than parsed, as in `bundles.tensors`: so no size,
count, name or header in a board's file is ever used, and nothing is read unless the file has the right size.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from toolchain.bundles.manifest import Tensor
from toolchain.bundles.tensors import form, framed, stored_dtype
from toolchain.quantities import counted

_FIELDS = struct.Struct("<HHHHHIIIHH")  # the fields that are in both zip headers of a member
_VERSION, _UTF8_NAMES, _STORED, _TIME, _DATE, _NO_EXTRA = 20, 0x800, 0, 0, 0x21, 0
_LOCAL, _CENTRAL, _END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
_CENTRAL_ENDS = bytes(10)  # comment, disk, attributes


def npz_size(specs: Sequence[Tensor]) -> int:
    """Return the size in bytes of the file with these outputs."""
    end = len(_directory([0] * len(specs), specs))
    return sum(len(_head(0, place, spec)) + spec.nbytes for place, spec in enumerate(specs)) + end


def read_npz(file: Path, specs: Sequence[Tensor]) -> dict[str, np.ndarray]:
    """Read the file and return the outputs by name, in the manifest's order.

    Raises
    ------
    ValueError
        The file has another form than these outputs; the message says where.
    """
    size, expected = file.stat().st_size, npz_size(specs)
    if size != expected:
        raise ValueError(f"it has {counted(size, 'byte')}, but the manifest's outputs need {expected}")
    content = bytearray(size)
    with file.open("rb") as opened:
        opened.readinto(content)
    view = memoryview(content)
    outputs, sums, at = {}, [], 0
    for place, spec in enumerate(specs):
        start = at + len(_head(0, place, spec))
        end = start + spec.nbytes
        header = _npy_header(spec)
        sums.append(zlib.crc32(view[start - len(header) : end]))
        if view[at:start] != _head(sums[-1], place, spec):
            raise ValueError(
                f"output {spec.name!r} is not an intact {form(spec.dtype, spec.shape)} as in the manifest"
            )
        dtype = stored_dtype(spec)
        elements = np.frombuffer(content, dtype, spec.nbytes // dtype.itemsize, start)
        outputs[spec.name] = elements.reshape(spec.shape)
        if spec.dtype == "bool" and outputs[spec.name].view(np.uint8).max(initial=0) > 1:
            raise ValueError(f"output {spec.name!r} contains a bool that is neither true nor false")
        at = end
    if view[at:] != _directory(sums, specs):
        raise ValueError("its directory is not that of the manifest's outputs")
    return outputs


def _head(crc: int, place: int, spec: Tensor) -> bytes:
    """Return the bytes before an output's elements."""
    header = _npy_header(spec)
    return _LOCAL + _fields(crc, place, spec) + _name(place) + header


def _directory(sums: Sequence[int], specs: Sequence[Tensor]) -> bytes:
    """Return the bytes after the last output."""
    entries, at = b"", 0
    for place, (crc, spec) in enumerate(zip(sums, specs, strict=True)):
        offset = struct.pack("<I", at % 2**32)
        entries += _CENTRAL + struct.pack("<H", _VERSION) + _fields(crc, place, spec)
        entries += _CENTRAL_ENDS + offset + _name(place)
        at += len(_head(0, place, spec)) + spec.nbytes
    count = len(specs)
    return entries + _END + struct.pack("<IHHIIH", 0, count, count, len(entries), at % 2**32, 0)


def _fields(crc: int, place: int, spec: Tensor) -> bytes:
    size = (len(_npy_header(spec)) + spec.nbytes) % 2**32  # edge-rt refuses to write outputs above 4 GiB
    name = len(_name(place))
    return _FIELDS.pack(_VERSION, _UTF8_NAMES, _STORED, _TIME, _DATE, crc, size, size, name, _NO_EXTRA)


def _name(place: int) -> bytes:
    return f"{place}.npy".encode()


def _npy_header(spec: Tensor) -> bytes:
    shape = "".join(f"{extent}," for extent in spec.shape)
    return framed(f"{{'descr': {stored_dtype(spec).str!r}, 'fortran_order': False, 'shape': ({shape}), }}")
