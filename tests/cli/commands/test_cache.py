"""`toolchain cache`. tests/test_cache.py has what is listed and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Toolchain


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what an earlier version left in the cache: a compiled edge-rt of one MiB."""
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "cache" / "runtime" / "0123-aarch64" / "edge-rt"
    program.parent.mkdir(parents=True)
    program.write_bytes(bytes(2**20))
    return program.parent


def test_an_old_runtime_is_listed_and_pruned(invoke: Toolchain, old: Path) -> None:
    (listed,) = invoke("cache", "list", "--json").document
    assert listed == {"kind": "runtime", "path": str(old), "size_mib": 1.0, "current": False}
    assert invoke("cache", "list").out.splitlines()[1].split() == ["runtime", "1.0", "no", str(old)]
    assert f"would remove {old} (1.0 MiB)" in invoke("cache", "prune", "--dry-run").out and old.exists()
    assert "removed 1 entry, 1.0 MiB" in invoke("cache", "prune").out and not old.exists()
    assert invoke("cache", "prune", "--json").document == {"dry_run": False, "removed": []}
