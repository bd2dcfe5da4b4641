"""`build`: builds a bundle from a model, a board and the records."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import numpy as np

from toolchain.backends.table import backend_for
from toolchain.building.bundling import bundling, tolerance_of
from toolchain.building.check import checked_here, require_this_host
from toolchain.building.decide import Decision, decide_beside, decide_task, points
from toolchain.building.padding import check_padding
from toolchain.building.several import Size, check_size, shape_with, weights_of
from toolchain.building.tolerances import Expectation
from toolchain.bundles.write import write_bundle
from toolchain.devices.device import CPU
from toolchain.errors import ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.files.scratch import scratch_folder
from toolchain.linking.table import linker_named
from toolchain.measuring.verify import VerifyResult
from toolchain.models.judging.reference import Reference, given_reference, seeded_reference
from toolchain.models.load import Model
from toolchain.models.quantising.result import Quantised
from toolchain.models.several import shape_of
from toolchain.quantities import counted
from toolchain.records.lookup import SHIPPED
from toolchain.records.store import RecordStore
from toolchain.targets.build_for import BuildFor
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Network
from toolchain.tasks.candidate import record_key
from toolchain.tasks.options import CodeOptions

Arrays = Mapping[str, "np.ndarray[Any, Any]"]
SAMPLE_SEED = 0


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build.

    Attributes
    ----------
    code
        Options for the generated code.
    cluster
        CPU of one of the class's clusters; None: the first.
    threads
        Number of threads whose records are looked up; None: the cores of the cluster.
    require_tuned
        Whether to fail if a task has no record.
    sample
        Inputs for verify, by name; None: random ones.
    sample_option
        The command-line option with the sample, for error messages.
    shipped
        The file of records that the project ships; None: use none.
    check
        Whether to run the network with the sample inputs on this host before anything is written.
    pad
        Whether inputs may be padded with zeros to the next of several shapes; checked with the reference.
    """

    code: CodeOptions = field(default_factory=CodeOptions)
    cluster: str | None = None
    threads: int | None = None
    require_tuned: bool = False
    linker: str = "zig"
    format: Literal["so", "tar"] = "so"
    sample: Arrays | None = None
    sample_option: str = "--sample"
    shipped: Path | None = SHIPPED
    check: bool = False
    pad: bool = False


@dataclass(frozen=True)
class BuildResult:
    """The result of a build.

    Attributes
    ----------
    decisions
        The record or default that was chosen for each task.
    reference
        The sample in the bundle, with its expected outputs.
    beside
        Decisions for the tasks that the CPU computes beside a device; empty if there is no device.
    size
        Sizes of the bundle and of the network.
    expectations
        How outputs are compared in each of the network's shapes.
    checked
        Comparison of the outputs for the sample inputs, computed on this host; None if not asked for. Of
        several shapes, that of the largest.
    shapes
        The shapes of the network, the largest first, as `--shape` takes them.
    copied
        Function -> bytes of its constants that come on top of those of the largest shape.
    """

    bundle: Path
    bundle_sha256: str
    library: Path
    library_sha256: str
    target: BoardTarget
    decisions: list[Decision[Any]]
    reference: Reference
    quantised: Quantised | None = None
    beside: list[Decision[Any]] = field(default_factory=list)
    size: Size = field(default_factory=Size)
    expectations: tuple[Expectation, ...] = ()
    checked: VerifyResult | None = None
    shapes: tuple[str, ...] = ()
    copied: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the result as `toolchain build --json` prints it."""
        return {
            "bundle": str(self.bundle),
            "bundle_sha256": self.bundle_sha256,
            "library": str(self.library),
            "library_sha256": self.library_sha256,
            "target": self.target.triple,
            "cpu": self.target.cpu,
            "device": self.target.device or CPU,
            **_decided(self.decisions),
            "beside": _decided(self.beside) if self.beside else None,
            "sample": self.reference.to_json(),
            "size": self.size.to_json(),
            "quantising": self.quantised.to_json() if self.quantised else None,
            "check": self.checked.to_json() if self.checked else None,
            **({"shapes": list(self.shapes), "copied": dict(self.copied)} if len(self.shapes) > 1 else {}),
            "warnings": self.warnings,
        }

    @property
    def warnings(self) -> list[str]:
        """Warnings for the user."""
        said = [decision.warning for decision in (*self.decisions, *self.beside) if decision.warning]
        for each in self.expectations[:1]:
            said += each.warnings()
        return said + (self.quantised.cost.warnings() if self.quantised else [])


def _decided(decisions: list[Decision[Any]]) -> dict[str, object]:
    return {
        "tasks": count(decisions),
        "records": [decision.to_json() for decision in decisions],
        "rules": {decision.task.id: decision.rule for decision in decisions},
    }


def count(decisions: list[Decision[Any]]) -> dict[str, int]:
    """Return the numbers of all, tuned and improved tasks."""
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
        Called with the name of each step as it begins.

    Raises
    ------
    UsageError
        An option or the sample does not fit the model or the board, the network computes nothing, or its
        outputs for the sample are not finite.
    CheckError
        `check` is set and the outputs on this host differ from the reference; nothing is written.
    ToolchainError
        `require_tuned` is set and a task has no record; or TVM, the linker, the check of the library or the
        disk failed.
    """
    options = options or BuildOptions()
    if options.pad and not model.others:
        raise UsageError(
            "--pad: there is only one shape", "list several, such as --shape 'x=1,3,48,{160,320}'"
        )
    if options.check:
        require_this_host(target)
    stem = f"{model.name}-{target.board or target.profile.name}"
    library = out / f"{stem}.{options.format}"
    bundle = out / f"{stem}.bundle"
    atomic.check_writable(bundle)
    linker = linker_named(options.linker)
    linker.check(target.profile)
    backend = backend_for(target.profile, options.code)
    made_for = backend.target(options.cluster, options.threads, integers=model.integral)
    progress("computing the reference output")  # first, since it finds a useless sample
    references = references_for(model, options)
    if model.others:
        progress(check_size(model, references))
    made_by = bundling(model, backend, target, made_for, references, linker, pad=options.pad)
    if options.pad:
        progress("checking that zeros behind the inputs change nothing")
        check_padding(model, made_by.expectations, tolerance_of(model, backend))
    reference, cases = references[0], made_by.cases
    with scratch_folder() as folder:
        progress("lowering the network")
        with backend.lower(model, made_for, compiles=True) as network:
            own, beside = decide_network(network, model, target, store, options)
            decided = [*own, *beside]
            made = made_by.make(network, points(decided), decided, folder, progress, options.format)
        progress("writing the bundle")
        manifest, code = made.manifest, made.code
        checked = None
        if options.check:
            progress("running the sample on this host")
            write_bundle(folder / "check.bundle", manifest, code, reference.sample, reference.outputs, cases)
            checked = checked_here(folder / "check.bundle")
        with atomic.replacing(library) as temporary:
            shutil.copyfile(code, temporary)
            # Inside the block: if the bundle cannot be written, no library without a bundle is left.
            digest = write_bundle(bundle, manifest, temporary, reference.sample, reference.outputs, cases)
    sample = sum(
        array.nbytes for each in references for array in (*each.sample.values(), *each.outputs.values())
    )
    return BuildResult(
        bundle=bundle.absolute(),
        bundle_sha256=digest,
        library=library.absolute(),
        library_sha256=hashlib.sha256(library.read_bytes()).hexdigest(),
        target=made_for,
        decisions=made.decisions[: len(own)],
        reference=reference,
        quantised=model.quantised,
        beside=made.decisions[len(own) :],
        size=Size(bundle.stat().st_size, weights_of(model.onnx), made.objects.transformed, sample),
        expectations=made_by.expectations,
        checked=checked,
        shapes=tuple(map(shape_of, model.shapes)),
        copied=made.objects.copied,
    )


def references_for(model: Model, options: BuildOptions) -> list[Reference]:
    """Return the reference of each shape; the user's sample is for the shape that it has.

    Raises
    ------
    UsageError
        The user's sample has none of the shapes; or as `reference_for`.
    """
    if not model.others or options.sample is None:
        return [reference_for(shape, options) for shape in model.shapes]
    of = shape_with(model, options.sample, options.sample_option)
    return [
        reference_for(shape, options if shape is of else replace(options, sample=None))
        for shape in model.shapes
    ]


def reference_for(model: Model, options: BuildOptions) -> Reference:
    """Return the sample for the bundle, the user's or a random one, with the expected outputs.

    Raises
    ------
    UsageError
        The user's sample does not fit, or the outputs for it are not finite.
    """
    if options.sample is None:
        return seeded_reference(model, SAMPLE_SEED, options.sample_option)
    return given_reference(model, options.sample, options.sample_option)


def decide_network(
    network: Network[Any], model: Model, target: BuildFor, store: RecordStore | None, options: BuildOptions
) -> tuple[list[Decision[Any]], list[Decision[Any]]]:
    """Choose a record or the default for each task of a network.

    Returns
    -------
    tuple
        The decisions for the tasks of the target; and for those that stay on the CPU if it is a device.

    Raises
    ------
    UsageError
        The network computes nothing.
    ToolchainError
        `options.require_tuned` is set and a task has no record.
    """
    made_for = network.target
    decisions = [
        decide_task(network, task, store, made_for, target.record_class, options.shipped)
        for task in network.tasks
    ]
    if not decisions:
        raise UsageError(
            f"{model.source}: nothing is computed from the inputs, so there is nothing to compile",
            "hand over a network whose outputs depend on its inputs",
        )
    if options.require_tuned:
        _require_tuned(decisions, model, target, options, _others(store, decisions, made_for, target))
    return decisions, decide_beside(network, store, target.record_class, options.shipped)


def _others(
    store: RecordStore | None, decisions: list[Decision[Any]], made_for: BoardTarget, target: BuildFor
) -> list[str]:
    """Return other devices of the same kind that have records for tasks which lack one."""
    if store is None or made_for.limits is None:
        return []
    missing = [decision.task.workload for decision in decisions if not decision.tuned]
    found = {
        device
        for workload in missing
        for device in store.devices(record_key(workload, made_for, target.record_class))
    }
    return sorted(each for each in found if each.startswith(f"{made_for.kind}:"))


def _require_tuned(
    decisions: list[Decision[Any]], model: Model, target: BuildFor, options: BuildOptions, others: list[str]
) -> None:
    missing = [decision.task for decision in decisions if not decision.tuned]
    if not missing:
        return
    board = target.board or target.profile.name
    listed = ", ".join(f"{task.id} ({task.name})" for task in missing)
    typed = {"board": board, "cluster": options.cluster}
    where = "".join(f" --{name} {value}" for name, value in typed.items() if value is not None)
    which = f" --tasks {','.join(task.id for task in missing)}" if len(missing) < len(decisions) else ""
    tune = f"toolchain tune {quote(model.source)}{where}{model.options.typed()}{options.code.typed()}{which}"
    there = " or ".join(f"--device {quote(device)}" for device in others)
    raise ToolchainError(
        f"--require-tuned: {len(missing)} of {counted(len(decisions), 'task')} of {model.name} "
        f"have no record that applies on {board}: {listed}",
        f"{tune}; {there} uses the records of another device" if others else tune,
    )
