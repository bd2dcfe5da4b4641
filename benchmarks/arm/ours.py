"""A network of ours: built by the command line, its second inference counted."""

from __future__ import annotations

import json
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.arm.counting import Block, count
from benchmarks.arm.failure import run
from toolchain.boards.qemu import user_modes
from toolchain.bundles.read import read_bundle
from toolchain.linking.architectures import architecture_of
from toolchain.linking.choice import linker_named
from toolchain.profiles import load_profile
from toolchain.runtime import arch_of, ensure_runtime

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Built:
    """A network's library and bundle for cores of one kind."""

    board: str
    cpu: str
    library: Path
    objects: tuple[Path, ...]
    bundle: Path


def build(model: str | Path, board: str, cluster: str | None, folder: Path, *options: str) -> Built:
    """Build a network for a board class, with nothing that was tuned; objects and library."""
    profile = load_profile(board)
    cores = profile.cluster(cluster).cpu
    words = [
        "build",
        model,
        "--board",
        board,
        "--cluster",
        cores,
        "--no-shipped",
        "--format",
        "tar",
        *options,
    ]
    env = {"TOOLCHAIN_DATA_DIR": str(folder / "data"), "TOOLCHAIN_ENGINE": "host"}
    document = json.loads(run([sys.executable, "-m", "toolchain", *words, "-o", folder, "--json"], **env))
    with tarfile.open(document["library"]) as tar:
        names = tar.getnames()
        tar.extractall(folder, filter="data")
    objects = tuple(folder / name for name in names)
    library = folder / "library.so"
    linker_named("zig").link(objects, library, profile)
    return Built(board, cores, library, objects, Path(document["bundle"]))


def count_ours(plugin: Path, built: Built, folder: Path) -> tuple[list[Block], float]:
    """Return what the second inference executes, and its error, relative to the largest output."""
    profile = load_profile(built.board)
    runtime = ensure_runtime(arch_of(profile))
    program = folder / "twice"
    zig_target = f"{architecture_of(profile).zig_target}.{profile.glibc}"
    run(
        [
            *(
                sys.executable,
                "-m",
                "ziglang",
                "cc",
                "-target",
                zig_target,
                "-O2",
                "-Wall",
                "-Werror",
                "-o",
                program,
            ),
            *(
                _HERE / "twice.c",
                f"-I{runtime.header.parent}",
                runtime.library,
                f"-Wl,-rpath,{runtime.library.parent}",
            ),
        ]
    )
    bundle = read_bundle(built.bundle)
    given: list[str | Path] = []
    for name, array in bundle.sample.items():
        file = folder / f"{name}.bin"
        array.tofile(file)
        given += [file, "x".join(map(str, array.shape))]
    output = folder / "output.bin"
    root = user_modes()[profile.arch].sysroot
    blocks = count(plugin, runtime.arch, built.cpu, root, [program, built.library, output, *given])
    expected = next(iter(bundle.expected.values()))
    found = np.fromfile(output, expected.dtype).reshape(expected.shape)
    return blocks, float(np.abs(found - expected).max() / np.abs(expected).max())
