"""Compiles the kernels by which a pack measures what a launch and a barrier of the grid cost."""

from __future__ import annotations

from pathlib import Path

from benchmarks.nvidia.building import Target
from toolchain.architectures.table import architecture_of
from toolchain.backends.table import backend_for
from toolchain.devices.cuda_architectures import EMULATED, number_of
from toolchain.lowering.dialects.nvrtc import compile_cuda
from toolchain.profiles import load_profile
from toolchain.tasks.options import CodeOptions
from toolchain.testbeds.cuda import compile_emulated

SOURCE = Path(__file__).with_suffix(".cu")


def barrier_kernels(target: Target) -> dict[int, bytes]:
    """Return their code for each architecture of a target, by its number.

    Raises
    ------
    ToolchainError
        A compiler is missing or fails, or the board class has no such GPU.
    """
    profile = load_profile(target.board)
    made_for = backend_for(profile, CodeOptions(device="cuda", arch=target.arch)).target()
    source, here = SOURCE.read_text(), architecture_of(str(made_for.host.attrs["mtriple"]))
    return {
        number_of(name): compile_emulated(source, here)
        if name == EMULATED and here
        else compile_cuda(source, number_of(name)).code.code
        for name in made_for.architectures
    }
