"""A runtime that says that it is compiled, whether it is there already or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolchain.runtime import Runtime, ensure_runtime

TOLD = "compiling edge-rt for x86_64: 1/28 steps"


def tell_compiling(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Let a module's `ensure_runtime` tell one step of the compilation, which takes minutes once."""

    def compiling(arch: str, *, progress: Callable[[str], None] | None) -> Runtime:
        assert progress is not None
        progress(f"compiling edge-rt for {arch}: 1/28 steps")
        return ensure_runtime(arch)

    monkeypatch.setattr(f"{module}.ensure_runtime", compiling)
