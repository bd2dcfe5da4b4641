"""Many boards in one rollout, some of which fail: each ends as it must, and the host stays small and busy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[2]


def run(count: int, faulty: int, at_once: int, health_s: float, folder: Path) -> dict[str, Any]:
    words = [count, faulty, at_once, health_s]
    argv = [sys.executable, "-m", "tests.rollouts.scale", str(folder), *map(str, words)]
    done = subprocess.run(argv, cwd=HERE, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_sixteen_boards_of_which_half_fail(tmp_path: Path) -> None:
    result = run(16, 8, 4, 0.1, tmp_path)
    assert result["wrong"] == [] and result["installed"] == 8
    assert result["peak_mib"] <= 300


@pytest.mark.full
def test_two_hundred_boards_of_which_a_tenth_fails(tmp_path: Path) -> None:
    result = run(200, 20, 32, 30, tmp_path)
    assert result["wrong"] == [] and result["installed"] == 180
    assert result["peak_mib"] <= 300
    assert result["ratio"] <= 1.3, result
