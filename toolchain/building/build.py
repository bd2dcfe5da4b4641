"""`build`: a bundle from a model, a board and the records."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import numpy as np

from toolchain.backends.packed import kinds as packed
from toolchain.backends.packed.machines import machine_of
from toolchain.backends.tensorir import kinds as tensorir
from toolchain.boards.inventory.lookup import BuildFor
from toolchain.building.apply import Decision, pack, schedule
from toolchain.building.manifest import manifest_of
from toolchain.bundles.write import write_bundle
from toolchain.configuration.settings import settings
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.linking.choice import linker_named
from toolchain.linking.gate import check_library
from toolchain.lowering.export import write_object_tar
from toolchain.lowering.kernels.compilers import Compilers
from toolchain.lowering.kernels.network import Kernels
from toolchain.lowering.kernels.store import ObjectStore
from toolchain.lowering.pipeline import fuse, lower_fused
from toolchain.lowering.tasks import extract_tasks
from toolchain.models.judging.reference import reference_outputs, sample_inputs
from toolchain.models.load import Model
from toolchain.models.spec import check_inputs
from toolchain.records.key import RecordKey
from toolchain.records.lookup import SHIPPED, Hit, lookup
from toolchain.records.store import RecordStore, Usable, anything
from toolchain.targets.target import BoardTarget, target_for

Arrays = Mapping[str, "np.ndarray[Any, Any]"]
SAMPLE_SEED = 0
LARGE = 50
"""Nodes of a network whose functions take longer to compile than a process to start."""


@dataclass(frozen=True)
class BuildOptions:
    """How to build.

    Attributes
    ----------
    cluster
        A cpu of the class's clusters; None: the first.
    threads
        Threads whose records are wanted; None: the cores of the cluster.
    sample
        The inputs that verify runs, by name; None: seeded ones.
    """

    cluster: str | None = None
    threads: int | None = None
    require_tuned: bool = False
    shipped: bool = True
    linker: str = "zig"
    format: Literal["so", "tar"] = "so"
    sample: Arrays | None = None


@dataclass(frozen=True)
class BuildResult:
    """What was built, and what decided how its tasks are computed."""

    bundle: Path
    bundle_sha256: str
    library: Path
    library_sha256: str
    target: BoardTarget
    decisions: list[Decision]

    def to_json(self) -> dict[str, object]:
        """Return the result as `toolchain build --json` prints it."""
        return {
            "bundle": str(self.bundle),
            "bundle_sha256": self.bundle_sha256,
            "library": str(self.library),
            "library_sha256": self.library_sha256,
            "target": self.target.triple,
            "cpu": self.target.cpu,
            "tasks": count(self.decisions),
            "rules": {decision.task.id: decision.rule for decision in self.decisions},
            "warnings": [decision.warning for decision in self.decisions if decision.warning],
        }


def count(decisions: list[Decision]) -> dict[str, int]:
    """Return total, tuned and improved tasks."""
    return {
        "total": len(decisions),
        "tuned": sum(decision.tuned for decision in decisions),
        "improved": sum(decision.improved for decision in decisions),
    }


def build(
    model: Model,
    target: BuildFor,
    store: RecordStore | None,
    out: Path,
    options: BuildOptions | None = None,
    progress: Callable[[str], None] = lambda _step: None,
) -> BuildResult:
    """Write `<model>-<board or class>.so` (or `.tar`) and `.bundle` into the folder `out`.

    Parameters
    ----------
    store
        The user's records; None: build without any.
    progress
        Told each step as it begins.

    Raises
    ------
    UsageError
        An option or the sample does not fit the model or the board; the network computes nothing,
        or on the sample nothing finite.
    ToolchainError
        `require_tuned` and a task has no record; TVM, the linker, the gate or the disk failed.
    """
    options = options or BuildOptions()
    linker = linker_named(options.linker)
    linker.check(target.profile)
    sample = options.sample if options.sample is not None else sample_inputs(model, SAMPLE_SEED)
    check_inputs(model.inputs, sample)
    made_for = target_for(target.profile, options.cluster, options.threads, model.options.dtype)
    progress("computing the reference output")  # first: a sample that is no use shows here
    expected = reference_outputs(model, dict(sample))
    stem = f"{model.name}-{target.board or target.profile.name}"
    library = out / f"{stem}.{options.format}"
    bundle = out / f"{stem}.bundle"
    with scratch_folder() as folder:
        objects, decisions = compile_network(model, target, made_for, store, options, folder, progress)
        progress("linking")
        linked = folder / "library.so"
        linker.link(objects, linked, target.profile)
        check_library(linked, target.profile, objects)
        progress("writing the bundle")
        manifest = manifest_of(model, target, made_for, options.format, decisions)
        with atomic.replacing(library) as temporary:
            if options.format == "tar":
                write_object_tar(objects, temporary)
            else:
                shutil.copyfile(linked, temporary)
            # Within: where the bundle cannot be written, no library is left that belongs to none.
            digest = write_bundle(bundle, manifest, temporary, sample, expected)
    return BuildResult(
        bundle.absolute(),
        digest,
        library.absolute(),
        hashlib.sha256(library.read_bytes()).hexdigest(),
        made_for,
        decisions,
    )


def compile_network(
    model: Model,
    target: BuildFor,
    made_for: BoardTarget,
    store: RecordStore | None,
    options: BuildOptions,
    folder: Path,
    progress: Callable[[str], None],
) -> tuple[tuple[Path, ...], list[Decision]]:
    """Write the objects of a network into `folder`; return them, and what decided how they are computed.

    Raises
    ------
    UsageError
        The network computes nothing.
    ToolchainError
        `options.require_tuned` and a task has no record, or TVM failed.
    """
    progress("lowering the network")
    kept, built = ObjectStore(), _name(model, made_for)
    large = len(model.onnx.graph.node) >= LARGE
    with Compilers(settings().jobs, str(made_for.target)) as compilers:
        if large and kept.get(built) is None:
            compilers.start()
        fused = fuse(model.module, made_for.target, model.options.layout)
        tasks = extract_tasks(fused)
        find = _finder(store, made_for, target.record_class, model, options.shipped)
        kernels = Kernels(made_for.target, compilers, kept, progress)
        if model.options.packed:
            machine, winograd = machine_of(made_for), model.options.uses_winograd
            scheduled, decisions = pack(fused, tasks, find, machine, winograd, kernels.stand_in)
        else:
            scheduled, decisions = schedule(fused, tasks, find)
        if not decisions:
            raise UsageError(
                f"{model.source}: nothing is computed from the inputs, so there is nothing to compile",
                "hand over a network whose outputs depend on its inputs",
            )
        if options.require_tuned:
            _require_tuned(decisions, model, target, options.cluster)
        objects = kernels.export(lower_fused(scheduled, made_for.target), folder)
    if large:
        kept.put(built, b"")
    if kept.refused:
        progress(f"warning: what was compiled cannot be kept for the next build: {kept.refused}")
    return objects, decisions


def _name(model: Model, made_for: BoardTarget) -> str:
    """Return the name under which it is kept that a network was built: then next to nothing is compiled."""
    what = f"{model.sha256} {model.options!r} {made_for.target}"
    return f"network_{hashlib.sha256(what.encode()).hexdigest()[:32]}"


def record_key(workload: str, made_for: BoardTarget, record_class: str) -> RecordKey:
    """Return the exact key of a task's records."""
    return RecordKey(workload, made_for.triple, made_for.cpu, made_for.level, made_for.threads, record_class)


def kinds_for(model: Model) -> tuple[str, ...]:
    """Return the kinds of records that say how a model with these options is computed."""
    return packed.KINDS if model.options.packed else tensorir.KINDS


def usable_for(model: Model) -> Usable:
    """Return which records of these kinds a build of a model with these options takes."""
    return packed.usable(model.options.uses_winograd) if model.options.packed else anything


def _finder(
    store: RecordStore | None,
    made_for: BoardTarget,
    record_class: str,
    model: Model,
    shipped: bool,
) -> Callable[[str], Hit | None]:
    kinds, usable = kinds_for(model), usable_for(model)

    def find(workload: str) -> Hit | None:
        if store is None:
            return None
        key = record_key(workload, made_for, record_class)
        return lookup(store, key, kinds, shipped=SHIPPED if shipped else None, usable=usable)

    return find


def _require_tuned(decisions: list[Decision], model: Model, target: BuildFor, cluster: str | None) -> None:
    missing = [decision.task for decision in decisions if not decision.tuned]
    if not missing:
        return
    board = target.board or target.profile.name
    listed = ", ".join(f"{task.id} ({task.name})" for task in missing)
    typed = {"board": board, "cluster": cluster}
    where = "".join(f" --{name} {value}" for name, value in typed.items() if value is not None)
    which = f" --tasks {','.join(task.id for task in missing)}" if len(missing) < len(decisions) else ""
    raise ToolchainError(
        f"--require-tuned: {len(missing)} of {len(decisions)} tasks of {model.name} "
        f"have no record that applies on {board}: {listed}",
        f"toolchain tune {quote(model.source)}{where}{model.options.typed()}{which}",
    )
