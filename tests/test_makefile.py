"""What `make` calls."""

from __future__ import annotations

import subprocess
from pathlib import Path


def test_make_builds_all_images_or_one_and_walks_through_a_page() -> None:
    root = Path(__file__).parents[1]
    for goal, line in (
        ("images", ".venv/bin/toolchain image build"),
        ("image-aarch64", ".venv/bin/toolchain image build aarch64"),
        ("tutorial-mali", ".venv/bin/python docs/walk.py docs/tutorials/mali.md"),
        ("tutorial-cuda", ".venv/bin/python docs/walk.py docs/tutorials/cuda.md"),
        ("tutorial-vta", ".venv/bin/python docs/walk.py docs/tutorials/vta.md"),
        (
            "tutorial-vta IMAGE=vta-sim",
            ".venv/bin/python docs/walk.py docs/tutorials/vta.md --image vta-sim",
        ),
    ):
        done = subprocess.run(
            ["make", "-n", *goal.split(), "DEPS=skip"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.splitlines()[-1].strip() == line
    shown = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert {"images", "image-%", "tutorial-%"} <= {line.split()[0] for line in shown.stdout.splitlines()}
