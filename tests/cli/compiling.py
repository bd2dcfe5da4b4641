"""A runtime that says that it is compiled, whether it is there already or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolchain.runtime import Runtime, ensure_runtime

TOLD = "edge-rt for x86_64: step 1/28"


def tell_compiling(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Let a module's `ensure_runtime` tell one step of the compilation, which takes minutes once."""

    def compiling(arch: str, *, progress: Callable[[str], None] | None) -> Runtime:
        assert progress is not None
        progress(f"edge-rt for {arch}: step 1/28")
        return ensure_runtime(arch)

    monkeypatch.setattr(f"{module}.ensure_runtime", compiling)
