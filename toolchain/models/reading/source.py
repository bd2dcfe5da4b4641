"""Reads the MODEL that a user names: a network of the zoo, or a file of a format in the table."""

from __future__ import annotations

import difflib
import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path

import onnx

from toolchain.errors import UsageError
from toolchain.files.plain import read_plain
from toolchain.models.options import ModelOptions, format_shape
from toolchain.models.reading.formats import (
    CONVERTED_FIRST,
    ONNX,
    SAVED_MODEL,
    conversion_needed,
    endings,
    format_of,
    format_of_ending,
)
from toolchain.models.reading.network_file import LARGEST, NetworkFile, exists
from toolchain.models.zoo import ZOO, ZooNetwork
from toolchain.models.zoo.graph_builder import GraphBuilder

ZOO_PREFIX = "zoo:"


@dataclass(frozen=True)
class Source:
    """The network that a user named, as it was read.

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
    judged
        What `proto` is, in words, for whoever asks what reference outputs are computed from.
    """

    name: str
    origin: str
    proto: onnx.ModelProto
    sha256: str
    judged: str = ONNX.judged


def read_source(source: str, options: ModelOptions) -> Source:
    """Read `zoo:NAME`, a bare zoo name or the path of a file whose format has a reader.

    Raises
    ------
    UsageError
        The network does not exist; or the file is missing, unreadable, of no known format, truncated or lacks
        external data. For another framework's file, the hint says how to convert it.
    MissingError
        A package that the file's reader needs is not installed.
    """
    if source.startswith(ZOO_PREFIX):
        return _from_zoo(source.removeprefix(ZOO_PREFIX), options)
    path = Path(source)
    if source in ZOO and not exists(path):
        return _from_zoo(source, options)
    if path.suffix not in (*endings(), *CONVERTED_FIRST) and not exists(path):
        raise _unknown(source)
    try:
        return _from_file(path)
    except UsageError as error:
        if path.suffix in CONVERTED_FIRST and exists(path):
            raise conversion_needed(path) from error
        raise


def is_zoo(source: str) -> bool:
    """Whether a source names a network of the zoo, or what is meant as one."""
    return source.startswith(ZOO_PREFIX) or (source in ZOO and not exists(Path(source)))


def _unknown(name: str) -> UsageError:
    names = [ZOO_PREFIX + network for network in ZOO]
    near = difflib.get_close_matches(name, [*names, *ZOO], n=1)
    meant = f"did you mean {near[0]!r}? or " if near else ""
    known = f"use one of {', '.join(names)}, or the path of a file that ends in {' or '.join(endings())}"
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
    file = _open(path)
    row = format_of(path, file.data)
    reader = row.load_reader()
    try:
        proto = reader(file)
    except ImportError as error:
        raise row.package_missing(path, error) from error
    return Source(path.stem, str(path.resolve()), proto, file.sha256(), row.judged)


def _open(path: Path) -> NetworkFile:
    """Read a file, if there is one that is neither empty nor too large for a network."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            if exists(path / SAVED_MODEL):
                raise conversion_needed(path / SAVED_MODEL)
            raise UsageError(
                f"{path} is a folder, not an {endings()[0]} file",
                f"name a file in it: {path}/FILE{endings()[0]}",
            )
        row = format_of_ending(path.suffix) or ONNX
        if stat.S_ISREG(status.st_mode) and status.st_size == 0:
            raise UsageError(f"{path} is empty, not {row}", row.again)
        if status.st_size > LARGEST:
            raise UsageError(f"{path} has {status.st_size} bytes; at most {LARGEST} are read", row.smaller)
        return NetworkFile(path, read_plain(path))
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", "check the path") from error
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", "check the path and its permissions"
        ) from error
