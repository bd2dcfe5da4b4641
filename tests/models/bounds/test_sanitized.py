"""edge-rt with sanitizers is given hostile values: an answer or a refusal, never a fault."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.backends.packed.computed import loaded
from tests.fuzz import sanitized
from tests.models.bounds.cases import CASES, Case, drawn
from toolchain.boards.inventory.lookup import LOCAL
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.profiles import load_profile
from toolchain.targets.build_for import BuildFor

pytestmark = pytest.mark.full

DRAWS = 6


@pytest.fixture(scope="module")
def program() -> Path:
    return sanitized.build()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hostile_values(case: Case, program: Path, tmp_path: Path) -> None:
    to = BuildFor(load_profile("x86_64"), LOCAL, emulated=False, record_class="x86_64")
    made = build(loaded(case.model()), to, None, tmp_path, BuildOptions(sample=case.given))
    random = np.random.default_rng(0)
    for draw in range(DRAWS):
        inputs = []
        for name, array in case.given.items():
            np.save(tmp_path / f"{name}.npy", drawn(array, random) if draw else array)
            inputs += ["--input", str(tmp_path / f"{name}.npy")]
        done = subprocess.run(
            [program, "run", made.library, *inputs, "--output", tmp_path / "out.npz"],
            env=sanitized.OPTIONS,
            capture_output=True,
            timeout=120,
        )
        assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
        answer = json.loads(done.stdout)
        assert done.returncode == 0 or (draw and answer["error"]["kind"] == "value"), answer
