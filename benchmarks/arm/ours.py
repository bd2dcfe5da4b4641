"""A network of ours: built by the command line, its second inference counted."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import tvm

from benchmarks.arm.counting import Block, count
from benchmarks.arm.failure import run
from toolchain.backends.packed.backend import in_integers
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.boards.emulation.qemu import user_modes
from toolchain.bundles.read import read_bundle
from toolchain.cli.model_options import model_options
from toolchain.linking.table import linker_named
from toolchain.lowering.graph.comparisons import with_bounds_kept
from toolchain.lowering.graph.half import halved
from toolchain.lowering.graph.pipeline import fuse, lower_fused
from toolchain.lowering.objects.export import export_objects
from toolchain.lowering.schedules.vectors import target_of_code
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import Profile, load_profile
from toolchain.runtime import arch_of, ensure_runtime
from toolchain.targets.target import target_for
from toolchain.tasks.options import CodeOptions

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
    """Build a network for a board class, with nothing that was tuned; objects and library.

    The command line compiles every function to an object of its own, named by its content. What is counted
    here is one object of the same code, in which the functions have the network's names.
    """
    profile = load_profile(board)
    cores = profile.cluster(cluster).cpu
    words = ["build", model, "--board", board, "--cluster", cores, *options]
    env = {"TOOLCHAIN_DATA_DIR": str(folder / "data"), "TOOLCHAIN_ENGINE": "host"}
    document = json.loads(run([sys.executable, "-m", "toolchain", *words, "-o", folder, "--json"], **env))
    typed: tuple[ModelOptions, CodeOptions] = _model_options.main(options, standalone_mode=False)
    objects = _whole(str(model), profile, cores, folder, *typed)
    library = folder / "library.so"
    linker_named("zig").link(objects, library, profile)
    return Built(board, cores, library, objects, Path(document["bundle"]))


@click.command()
@model_options
def _model_options(options: ModelOptions, code: CodeOptions) -> tuple[ModelOptions, CodeOptions]:
    return options, code


def _whole(
    model: str, profile: Profile, cores: str, folder: Path, options: ModelOptions, code: CodeOptions
) -> tuple[Path, ...]:
    target = target_for(profile, cores, dtype=code.dtype)
    loaded = load_model(model, options)
    machine, module = machine_of(target, integers=loaded.integral), loaded.module
    if code.dtype == "float16":
        module = halved(module, model)
    elif loaded.integral:
        module = in_integers(module, machine)
    made = rewrite(fuse(module, target.target), Choices(machine, code.winograd != "off"))
    lowered = with_bounds_kept(lower_fused(made.module, target.target), target.target)
    executable = tvm.compile(
        lowered,
        target=target_of_code(lowered, target.target),
        relax_pipeline=tvm.transform.Sequential([]),
    )
    return export_objects(executable, folder)


def count_ours(plugin: Path, built: Built, folder: Path) -> tuple[list[Block], float]:
    """Return what the second inference executes, and its error, relative to the largest output."""
    profile = load_profile(built.board)
    runtime = ensure_runtime(arch_of(profile))
    program = folder / "twice"
    zig_target = f"{profile.architecture.zig_target}.{profile.glibc}"
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
