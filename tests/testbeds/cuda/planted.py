"""Faults planted into the text of generated CUDA kernels, to see which of them the emulated driver finds."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import pytest

from tests.backends.packed.computed import loaded
from tests.testbeds.cuda.networks import emulated, error_of
from toolchain.architectures.architecture import Architecture
from toolchain.errors import ToolchainError
from toolchain.lowering.dialects import cuda
from toolchain.lowering.kernels import store
from toolchain.testbeds.cuda import compile_emulated

_KERNEL = re.compile(r'^extern "C" __global__', re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """A change of a kernel's text: each match of `old` is a place to plant it at."""

    name: str
    old: str
    new: str


MOST = 3  # places that a fault is planted at: loops are unrolled, and the others are alike
FAULTS = (
    Fault("missing barrier", r"__syncthreads\(\);", ";"),
    Fault("missing wait", r"edge_cp_async_wait\((\d)\);", ";"),
    Fault("wait for one group less", r"edge_cp_async_wait\((\d)\);", r"edge_cp_async_wait(\1 + 1);"),
    Fault("result before all have arrived", r"edge_last_to_arrive\([^;]*\);", "1;"),
    Fault("shared memory one vector further", r"(edge_cp_async_\w+\(\(&\(\w+\[)", r"\g<1>4 + "),
    Fault("global memory one vector further", r"(edge_cp_async_\w+\([^;]*?, \(&\(\w+\[)", r"\g<1>4 + "),
    Fault(
        "result one vector further", r"(\n *(?:\*\(\w+\*\)\()?(?:v\d+|result)_ptr(?:\[| \+ ))", r"\g<1>4 + "
    ),
    Fault("missing product", r"edge_mma_\w+\([^;]*\);", ";"),
    Fault("another lane's fragment", r"(\n[^\n=]*= [^\n;]*threadIdx\.x\) & )(31|127)\)", r"\g<1>~4 & \2)"),
)


@dataclass(frozen=True)
class Planted:
    """A fault at one place of one kernel."""

    source: str
    fault: Fault
    place: int

    @property
    def text(self) -> str:
        """The kernel's text with the fault."""
        begin = _begin(self.source)
        matches = list(re.finditer(self.fault.old, self.source[begin:]))[self.place]
        at = slice(begin + matches.start(), begin + matches.end())
        return self.source[: at.start] + matches.expand(self.fault.new) + self.source[at.stop :]


def _begin(source: str) -> int:
    """Return where the kernel begins, behind what all kernels begin with."""
    match = _KERNEL.search(source)
    assert match
    return match.start()


def places(source: str) -> Iterator[Planted]:
    """Yield each fault at up to `MOST` places of a kernel's text, from the first to the last."""
    for fault in FAULTS:
        count = len(re.findall(fault.old, source[_begin(source) :]))
        last = count - 1
        for place in sorted({round(part * last / (MOST - 1)) for part in range(MOST)} if count else ()):
            yield Planted(source, fault, place)


@dataclass
class Bed:
    """A network on the emulated driver whose kernels can be changed.

    Attributes
    ----------
    most
        Largest error, relative to the outputs, that is right.
    sources
        The text of each kernel with a barrier, in the order in which they were compiled.
    """

    model: onnx.ModelProto
    dtype: str
    folder: Path
    most: float
    sources: list[str] = field(default_factory=list)

    def end(self, planted: Planted | None = None) -> str:
        """Build and run with a fault; return how that ends: what the driver says, "wrong", or "right"."""
        shutil.rmtree(self.folder / "objects", ignore_errors=True)  # the cache knows nothing of faults

        def changed(source: str, architecture: Architecture) -> bytes:
            if planted is None and "__syncthreads" in source[_begin(source) :]:
                self.sources.append(source)
            text = planted.text if planted is not None and source == planted.source else source
            return compile_emulated(text, architecture)

        with pytest.MonkeyPatch.context() as patch, emulated(patch) as board:
            patch.setattr(store, "KIND", str(self.folder / "objects"))
            patch.setattr(cuda, "compile_emulated", changed)
            try:
                error = error_of(loaded(self.model), board, self.folder, self.dtype)
            except ToolchainError as told:
                return str(told)
        return "right" if error <= self.most else f"wrong: {error:.1e}"
