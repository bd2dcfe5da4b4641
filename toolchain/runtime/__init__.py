"""edge-rt, the one program that a board needs: compiled from the sources in TVM's wheels, and cached."""

from __future__ import annotations

from toolchain.runtime.cache import ARCHES, Runtime, arch_of, ensure_runtime, planned_runtime
from toolchain.runtime.fingerprint import expected_fingerprint

__all__ = ["ARCHES", "Runtime", "arch_of", "ensure_runtime", "expected_fingerprint", "planned_runtime"]
