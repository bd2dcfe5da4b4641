"""A library for Android, from a network to numbers: there is no device, so its code runs on Linux.

Under qemu with pages of 16 KiB, two empty libraries of Android's names lead the loader to glibc's.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.lowering.executable import source
from tests.lowering.scheduled import by_rows
from tests.measuring import small_network
from tests.models.graphs import graph_of, tensor_info
from toolchain.boards.board import Board
from toolchain.boards.emulation.qemu import user_modes
from toolchain.boards.inventory.lookup import find_target
from toolchain.boards.local.transport import LocalTransport
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.errors import UsageError
from toolchain.linking.linker import BIONIC_LIBC, BIONIC_LIBM
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.lowering.graph.pipeline import fuse
from toolchain.measuring.execution import OnBoard
from toolchain.measuring.numerics import Tolerance, compare
from toolchain.measuring.verify import verify_bundle
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.runtime import ensure_runtime
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow  # compiles edge-rt unless that was done

SHAPE = (1, 4, 16, 16)
# What LLVM leaves to libm, and what it calls libc for.
FUNCTIONS = ("Exp", "Log", "Erf", "Sin", "Cos", "Sinh", "Atan", "Tanh")


def network(file: Path) -> Path:
    """Write a convolution with many functions of its positive results, one after the other's exponents."""
    random = np.random.default_rng(3)
    weights = {"w": random.standard_normal((4, 4, 3, 3)).astype(np.float32) / 6, "half": np.float32(0.5)}
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Abs", ["c"], ["a"]),
        helper.make_node("Add", ["a", "half"], ["p"]),
        *(helper.make_node(name, ["p"], [name]) for name in FUNCTIONS),
        helper.make_node("Pow", ["p", "p"], ["Pow"]),
        helper.make_node("Concat", [*FUNCTIONS, "Pow"], ["all"], axis=1),
    ]
    outputs = [tensor_info("all", (1, 4 * (len(FUNCTIONS) + 1), 16, 16))]
    onnx.save(graph_of(nodes, [tensor_info("data", SHAPE)], outputs, weights), file)
    return file


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("android")
    model = load_model(str(network(folder / "functions.onnx")), ModelOptions())
    return read_bundle(build(model, find_target("android-arm64"), None, folder).bundle)


@pytest.fixture
def names(tmp_path: Path) -> Path:
    """Return a folder with a libm.so and a libc.so that are empty, and need glibc's."""
    folder = tmp_path / "names"
    folder.mkdir()
    (folder / "empty.s").write_text("")
    real = user_modes()["aarch64"].sysroot / "lib"
    made = str(folder / "empty.o")
    shared = ["ld.lld", "-m", "aarch64linux", "-shared", made]
    for arguments in (
        ["cc", "-target", "aarch64-linux-gnu", "-c", str(folder / "empty.s"), "-o", made],
        *(
            [*shared, "-soname", name, str(real / f"{name}.6"), "-o", str(folder / name)]
            for name in (BIONIC_LIBM, BIONIC_LIBC)
        ),
    ):
        done = run_zig(arguments, 120, zig_cache_environment())
        assert done.returncode == 0, done.output
    return folder


def test_its_code_computes_what_onnxruntime_computes(bundle: Bundle, names: Path, tmp_path: Path) -> None:
    library, sample, out = (tmp_path / name for name in ("library.so", "data.npy", "out.npz"))
    library.write_bytes(bundle.library)
    np.save(sample, bundle.sample["data"])
    mode = user_modes()["aarch64"]
    # Debian 12's qemu knows no cortex-a73; the A72 has the same features.
    emulator = [mode.program, *_pages(mode.program), "-cpu", "cortex-a72", "-L", mode.sysroot]
    edge_rt = [
        ensure_runtime("aarch64").program,
        "run",
        library,
        "--input",
        sample,
        "--state",
        tmp_path / "s",
    ]
    fetch = ["--output", out, "--output-names", "all"]
    done = subprocess.run([*emulator, *edge_rt, *fetch], capture_output=True, text=True, timeout=120)
    # Nothing else takes its place.
    assert done.returncode != 0 and f"{BIONIC_LIBM}: cannot open" in done.stdout
    found = [*emulator, "-E", f"LD_LIBRARY_PATH={names}", *edge_rt, *fetch]
    done = subprocess.run(found, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    comparison = compare(dict(np.load(out)), bundle.expected, {"all": Tolerance(1e-5)})
    assert comparison.passed, comparison


def _pages(emulator: str) -> list[str]:
    """Return options for pages of 16 KiB, as newer Androids have them; qemu 11 has none."""
    said = subprocess.run([emulator, "--help"], capture_output=True, text=True, timeout=60, check=False)
    return ["-p", "16384"] if re.search(r"^-p ", said.stdout, re.MULTILINE) else []


def test_the_bundle_says_what_it_is_for(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert (manifest.glibc, manifest.board_class, manifest.arch) == (None, "android-arm64", "aarch64")
    assert manifest.target.triple == "aarch64-unknown-linux-android"


def test_a_board_with_linux_of_the_same_architecture_refuses_it(bundle: Bundle, tmp_path: Path) -> None:
    board = Board("rock", load_profile("rk3399"), False, False, LocalTransport(tmp_path), "rock", "rk3399")
    with pytest.raises(UsageError, match=r"built for Android \(android-arm64\), board rock is aarch64-unk"):
        verify_bundle(bundle, OnBoard(board))


def test_no_instruction_uses_the_register_that_android_keeps(tmp_path: Path) -> None:
    """x18 (https://developer.android.com/ndk/guides/abis): LLVM knows by the triple's fourth part."""
    model = load_model(str(small_network.network(tmp_path / "small.onnx")), ModelOptions())
    uses = {}
    for name in ("android-arm64", "rk3399"):
        made = target_for(load_profile(name))
        code = source(by_rows(fuse(model.module, made.target)), made.target, "s")
        uses[name] = len(re.findall(r"\b[xw]18\b", code))
    assert uses["android-arm64"] == 0 < uses["rk3399"]


def test_its_objects_and_its_other_cluster(tmp_path: Path) -> None:
    model = load_model(str(network(tmp_path / "functions.onnx")), ModelOptions())
    options = BuildOptions(format="tar", cluster="cortex-a53")
    found = read_bundle(build(model, find_target("android-arm64"), None, tmp_path, options).bundle)
    assert (found.manifest.format, found.manifest.cluster) == ("tar", "cortex-a53")
