"""A file with a network as its reader gets it: its bytes, and the files beside it that it names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.errors import UsageError
from toolchain.files.plain import read_plain
from toolchain.foreign import shortened

if TYPE_CHECKING:
    import onnx

LARGEST = 2**31 - 1
"""Bytes of one protobuf message at most (protobuf's own limit); onnx and onnxruntime take networks as one."""


@dataclass
class NetworkFile:
    """A file with a network, read as a whole.

    Attributes
    ----------
    path
        The file; errors begin with it.
    data
        Its content.
    companions
        The files that it names, as far as they were read: location -> content.
    """

    path: Path
    data: bytes
    companions: dict[str, bytes] = field(default_factory=dict)

    def read_beside(self, location: str) -> bytes:
        """Return the content of a file that this one names, which counts for the digest from now on.

        Parameters
        ----------
        location
            Path of the file, relative to the folder of this one.

        Raises
        ------
        UsageError
            It is missing, unreadable, or outside the folder.
        """
        if location not in self.companions:
            self.companions[location] = self._read(location)
        return self.companions[location]

    def _read(self, location: str) -> bytes:
        folder = self.path.parent.resolve()
        named = f"{self.path}: its external data {shortened(repr(location))}"
        hint = "export the network again, with external data beside it"
        try:
            file = (folder / location).resolve()  # follows links: the target must be inside too
        except (ValueError, OSError) as error:  # a NUL in the name; a loop of links
            raise UsageError(f"{named} is no name of a file", hint) from error
        if not location or not file.is_relative_to(folder):
            raise UsageError(f"{named} lies outside the folder of the model", hint)
        try:
            return read_plain(file)
        except OSError as error:
            raise UsageError(
                f"{self.path}: its external data {shortened(str(file))} cannot be read: {error.strerror}",
                f"put {shortened(location)} beside {self.path.name}",
            ) from error

    def sha256(self) -> str:
        """Return the digest of the file and of all files beside it that were read."""
        digest = hashlib.sha256(self.data)
        for location, content in sorted(self.companions.items()):
            digest.update(location.encode() + b"\0" + hashlib.sha256(content).digest())
        return digest.hexdigest()


Reader = Callable[[NetworkFile], "onnx.ModelProto"]
"""Returns the network in a file as an ONNX graph with its weights inside; UsageError: the file is bad."""


def exists(path: Path) -> bool:
    """Whether a path leads to a file or folder; False if the system refuses the question."""
    try:
        path.stat()
    except OSError:  # Path.exists lets some through: a name too long, a folder that can't be searched
        return False
    return True
