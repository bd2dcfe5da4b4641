"""Run generated functions on buffers between two pages that must not be touched.

Every case runs at the end and at the start of its pages. A read or a write outside of a buffer ends this
process by SIGSEGV. Run with `python -m tests.backends.packed.guarded [convolutions] [few] [products]
[recurrences]`.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence

import numpy as np
import tvm

from tests.backends.packed.contractions import CASES
from tests.backends.packed.single import Case, Layer, Ready, ready
from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.columnwise import algorithm as columnwise_space
from toolchain.backends.packed.algorithms.depthwise import algorithm as depthwise_space
from toolchain.backends.packed.algorithms.direct import space as direct_space
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.stages.recurrent import pack_weight, recurrent
from toolchain.models.recurrent.cell import activations
from toolchain.models.recurrent.definition import define
from toolchain.models.recurrent.recurrence import Recurrence

PLAIN = {
    "LSTM": tuple(activations(["Sigmoid", "Tanh", "Tanh"], [], [])),
    "GRU": tuple(activations(["Sigmoid", "Tanh"], [], [])),
}

# Vectors as long as a cache line: whatever lies packed ends where a page can end.
MACHINE = machines.AVX512.of(2)
ARM = machines.AARCH64.of(2)  # reads pieces of rows of plain values

LAYERS = (
    Layer(512, 32, (7, 7)),  # passes
    Layer(256, 40, (5, 6), kernel=1, pad=0),  # blocks are odd, the last not full
    Layer(3, 32, (18, 16), kernel=2, stride=2, pad=0),
    Layer(32, 32, (9, 13), stride=2, groups=2),
    Layer(32, 48, (30, 30), kernel=5, pad=2),
    Layer(24, 24, (9, 10), groups=3),  # the last block has one group of two
    Layer(32, 32, (9, 11), pad=4, dilation=4),
    Layer(3, 24, (13, 9), stride=2, pad=5, dilation=5),
    Layer(24, 24, (15, 15), groups=24),
    Layer(32, 32, (4, 4), groups=32, kernel=5, pad=2),
)

FEW = (  # output channels: the columns lie in lanes
    Layer(1, 1, (1, 700), kernel=(1, 64), stride=2, pad=0),  # parts of a row
    Layer(3, 2, (5, 37), kernel=5, stride=2, pad=(2, 3)),
    Layer(4, 2, (6, 33), kernel=1, pad=0),  # read where it is
    Layer(2, 3, (9, 40), pad=2, dilation=2, batch=2),
    Layer(3, 3, (6, 50), kernel=3, stride=3, groups=3),
    Layer(1, 1, (2, 300), kernel=(1, 31), stride=4, pad=(0, 20)),
    Layer(17, 1, (5, 19), kernel=(7, 3), pad=(3, 1)),
)

WINOGRADS = (
    Case(Layer(32, 32, (14, 14)), WinogradChoice(2, 8, 3, (4, 4))),  # rows that do not divide the image
    Case(Layer(40, 48, (9, 7), batch=2), WinogradChoice(1, 5, 2, (1, 2))),  # rows of taps
    Case(Layer(32, 32, (7, 7)), WinogradChoice(2, 7, tile=(1, 3), order="channels"), halo=1),
    Case(Layer(32, 32, (9, 11), kernel=(1, 7), pad=(0, 3)), WinogradChoice(2, 6, 2, (1, 2)), halo=1),
    Case(Layer(32, 48, (11, 9), kernel=(7, 1), pad=(3, 0)), WinogradChoice(1, 9, 2, (2, 1))),
    Case(Layer(16, 32, (11, 9), kernel=5, pad=2), WinogradChoice(1, 9, tile=(2, 2), order="channels")),
)


def cases(layers: Sequence[Layer], machine: Machine) -> list[Case]:
    """Return the layers with and without zeros around the output; plain ones have none."""
    found = []
    for layer in layers:
        _read, conv = layer.read()
        if layer in FEW:
            found.append(Case(layer, columnwise_space.default(conv, machine)))
            continue
        choice = (depthwise_space.default if conv.depthwise else direct_space.default)(conv, machine)
        found += [Case(layer, choice), Case(layer, choice, halo=1)]
    return found


ALIGNED = 64  # bytes; TVM takes every buffer to begin so


class Guarded:
    """Memory between two pages that nothing may touch."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        self.inner = -(-size // page) * page
        self.memory = mmap.mmap(-1, self.inner + 2 * page)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for edge in (self.start, self.start + page + self.inner):
            if libc.mprotect(ctypes.c_void_p(edge), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def array(self, value: np.ndarray, at_end: bool) -> np.ndarray:
        """Return a copy that touches the last, or the first, page."""
        offset = mmap.PAGESIZE + (self.inner - -(-value.nbytes // ALIGNED) * ALIGNED if at_end else 0)
        copy = np.frombuffer(self.memory, value.dtype, value.size, offset).reshape(value.shape)
        copy[...] = value
        return copy


def run(function: Callable[..., None], arguments: Sequence[np.ndarray], at_end: bool) -> np.ndarray:
    """Call a function with copies of its arguments, all of them guarded; return the last, its output."""
    arrays = [Guarded(value.nbytes).array(value, at_end) for value in arguments]
    function(*[tvm.runtime.from_dlpack(array) for array in arrays])
    return arrays[-1]


def convolutions() -> None:
    """Run direct and depthwise convolutions, and winograd's."""
    flat = Case(LAYERS[0], DirectChoice(2, 14, flat=True, depth=2))
    wide = ready([*cases(LAYERS, MACHINE), flat], MACHINE)
    arm = ready([*cases(LAYERS[2:3], ARM), *WINOGRADS], ARM)
    check([*wide, *ready(WINOGRADS, MACHINE), *arm])


def few() -> None:
    """Run convolutions of few output channels."""
    check([*ready(cases(FEW, MACHINE), MACHINE), *ready(cases(FEW, ARM), ARM)])


def check(made: Sequence[Ready]) -> None:
    """Run compiled cases at both ends of their pages."""
    for each in made:
        for at_end in (True, False):
            error = each.error(run(each.run, each.arguments, at_end))
            assert error < (2e-5 if each.case in WINOGRADS else 1e-5), (each.case, error)


def products() -> None:
    """Run products of matrices and transposed convolutions."""
    for case in CASES:
        for machine in case.cores:
            function, arguments, expected = case.made(machine)
            library = tvm.compile(tvm.IRModule({"main": function}), target="llvm")
            for at_end in (True, False):
                found = case.plain(run(library["main"], arguments, at_end), machine)
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"{case} {machine}")


RECURRENCES = (
    Recurrence("LSTM", 3, 1, 16, (False, True), (PLAIN["LSTM"],) * 2),
    Recurrence("LSTM", 2, 7, 21, (True,), (PLAIN["LSTM"],), peepholes=True),
    Recurrence("GRU", 2, 5, 33, (False, True), (PLAIN["GRU"],) * 2, reset_after=True),
    Recurrence("GRU", 3, 2, 5, (False,), (PLAIN["GRU"],), lengths=True),
)


def recurrences() -> None:
    """Run LSTM and GRU, against their definition."""
    random = np.random.default_rng(0)
    for of in RECURRENCES:
        inputs = {name: random.standard_normal(shape).astype("f4") for name, shape in of.parameters.items()}
        inputs["r"][..., of.hidden :] = 0
        if of.lengths:
            inputs["lengths"] = np.arange(of.batch, dtype=np.int32) + 2
        given = [*inputs.values(), *(np.zeros(shape, "f4") for shape in of.outputs.values())]
        defined = tvm.compile(tvm.IRModule({"main": define(of).with_attr("global_symbol", "main")}), "llvm")
        tensors = [tvm.runtime.tensor(array) for array in given]
        defined["main"](*tensors)
        expected = [tensor.numpy() for tensor in tensors[len(inputs) :]]
        for machine in (MACHINE, ARM):
            made = recurrent(of, machine, constant=True)
            library = tvm.compile(tvm.IRModule({"main": made}), target="llvm")
            packed = {**inputs, "r": pack_weight(inputs["r"], of, machine)}
            for at_end in (True, False):
                found = run(library["main"], [*packed.values(), *map(np.zeros_like, expected)], at_end)
                np.testing.assert_allclose(
                    found, expected[-1], rtol=1e-4, atol=1e-5, err_msg=f"{of} {machine}"
                )


if __name__ == "__main__":
    runs = {each.__name__: each for each in (convolutions, few, products, recurrences)}
    for name in sys.argv[1:] or runs:
        runs[name]()
    print("within its buffers")
