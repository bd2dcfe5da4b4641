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


def _typed(goal: str) -> str:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        ["make", "-n", goal], cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_every_goal_installs_what_it_needs_and_the_demo_no_more() -> None:
    for goal, sets in {
        "demo": {"venv", "boards"},
        "venv": {"venv"},
        "test": {"venv", "all"},
        "check": {"venv", "all"},
        "image-base": {"venv", "boards"},
        "bench-arm": {"venv", "counts"},
        "bench-opencl": {"venv", "opencl"},
        "tutorial-vta": {"venv", "armv7", "opencl"},
        "tune-rock": {"venv", "openssh-client"},
    }.items():
        lines = [line.split() for line in _typed(goal).splitlines() if line.startswith("tools/deps.sh")]
        assert {word for line in lines for word in line[1:]} == sets, goal


def test_the_demo_compiles_edge_rt_while_the_rest_is_installed() -> None:
    typed = _typed("demo")
    compilers, rest = typed.index("tools/venv.sh compilers"), typed.index("tools/venv.sh demo")
    assert compilers < rest and typed.index("ensure_runtime") > compilers
    assert "-j4 demo-edge-rt deps demo-board demo-functions" in typed
