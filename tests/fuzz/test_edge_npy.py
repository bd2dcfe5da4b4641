"""edge-rt's reader of `.npy` files: an answer of one sentence, or it goes on with the array.

What is tried: the files of `npy`'s grammar, given to `edge-rt run` as the input of a library for
another program: the inputs are read, and then it can't be loaded.
It runs the sanitized edge-rt where EDGE_RT names it, as `make fuzz` does.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numpy.linalg import lapack_lite

from tests.fuzz.loop import Attempt, run
from tests.fuzz.sanitized import OPTIONS
from tests.fuzz.test_npy import user_file
from tests.waiting import PATIENCE_S
from toolchain.host import host_profile
from toolchain.runtime import arch_of, ensure_runtime

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

USAGE, LOADED = 2, 1
KNOWN = "?bhilqBHILQefd"  # what edge-rt takes, by numpy's letters


def taken(right: np.ndarray | None) -> bool:
    """Whether edge-rt must take that array; any other file it may refuse."""
    return (
        right is not None and right.dtype.char in KNOWN and right.dtype.isnative and right.flags.c_contiguous
    )


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what gives edge-rt one file."""
    program = os.environ.get("EDGE_RT") or str(ensure_runtime(arch_of(host_profile())).program)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.npy"
        argv = [program, "run", lapack_lite.__file__, "--input", f"x={file}", "--output", f"{folder}/out.npz"]
        argv += ["--state", f"{folder}/state"]

        def attempt(random: Random) -> None:
            data, right = user_file(random)
            file.write_bytes(data)
            done = subprocess.run(
                argv, capture_output=True, timeout=PATIENCE_S, env={**os.environ, **OPTIONS}, check=False
            )
            said = done.stderr.decode(errors="replace")
            assert done.returncode in (USAGE, LOADED), f"it ended with {done.returncode}: {said}"
            assert "runtime error" not in said and "Sanitizer" not in said, said
            error = json.loads(done.stdout)["error"]
            assert error["message"].isprintable(), f"not for people: {error}"
            if taken(right):
                assert error["kind"] == "load", f"refused though it is right: {error}"

        yield attempt


def test_a_hundred_files_are_refused_or_read() -> None:
    run("edge_npy", harness, seed=20260, cases=100)
