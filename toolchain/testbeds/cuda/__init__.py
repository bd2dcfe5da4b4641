"""CUDA without a GPU: a driver of ours that computes kernels on a CPU, and the compiler of kernels for it."""

from __future__ import annotations

from toolchain.testbeds.cuda.driver import compile_emulated, ensure_emulated_cuda

__all__ = ["compile_emulated", "ensure_emulated_cuda"]
