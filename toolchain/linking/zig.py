"""Zig from PyPI, which needs no system package."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

from toolchain.configuration import settings as config
from toolchain.errors import MissingError
from toolchain.linking.process import Ended, run


def zig_program() -> Path:
    """Return the zig executable of the `ziglang` package.

    Raises
    ------
    MissingError
        The package is not installed, or its executable is gone.
    """
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / "zig").is_file():
            return Path(folder) / "zig"
    raise MissingError(
        "zig, which links libraries for boards, is not installed", "pip install ziglang==0.17.0"
    )


def zig_cache_environment(folder: Path | None = None) -> dict[str, str]:
    """Return the environment variables that put zig's cache into a folder; None: inside our cache."""
    cache = str(folder or config.cache_dir() / "zig")
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


def run_zig(
    arguments: Sequence[str], deadline_s: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run zig until it exits.

    Raises
    ------
    MissingError
        zig is not installed.
    ToolchainError
        zig was still running at the deadline and was killed.
    """
    return run([str(zig_program()), *arguments], deadline_s, environment)
