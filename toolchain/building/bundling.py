"""Makes the content of a bundle from the chosen points, one per task.

`build` writes it to a file; a tuning run makes bundles to time whole networks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from toolchain import __version__
from toolchain.arrays import Array
from toolchain.building.decide import Decision
from toolchain.building.tolerances import Expectation, expectation
from toolchain.bundles.manifest import (
    MOST_WORDS,
    EngineFacts,
    Manifest,
    ModelFacts,
    QuantisingFacts,
    RatesFacts,
    ShapeFacts,
    TargetFacts,
    TaskFacts,
    Tensor,
)
from toolchain.devices.device import CPU
from toolchain.images.running.environment import image_here, lock_here
from toolchain.linking.library import link_library
from toolchain.linking.linker import Linker
from toolchain.lowering.kernels.device import compilers_of
from toolchain.lowering.objects.export import write_object_tar
from toolchain.measuring.numerics import TOLERANCE
from toolchain.models.importing.float16 import holds_float16
from toolchain.models.judging.reference import Reference
from toolchain.models.load import Model
from toolchain.models.spec import TensorSpec
from toolchain.targets.build_for import BuildFor
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network, Objects

# Makes the manifest of a bundle from the facts of its build.


def manifest_of(
    model: Model,
    backend: Backend[Any],
    target: BuildFor,
    made_for: BoardTarget,
    form: Literal["so", "tar"],
    objects: Objects,
    decisions: list[Decision[Any]],
    expectations: Sequence[Expectation],
    *,
    pad: bool = False,
) -> Manifest:
    """Return the manifest of a bundle, without the list of its files.

    Parameters
    ----------
    form
        Whether the bundle contains a library or a tar of its objects.
    expectations
        How outputs are compared in each of the model's `shapes`.
    pad
        Whether the inputs may be padded with zeros.
    """
    definition = json.loads(str(made_for.target))
    return Manifest(
        tool_version=__version__,
        model=ModelFacts(
            name=model.name,
            source_name=Path(model.source).name,
            sha256=model.sha256,
            softmax_outputs=tuple(sorted(model.softmax_outputs)),
            flops=_flops(decisions, 0),
        ),
        target=TargetFacts(
            triple=made_for.triple,
            mcpu=made_for.cpu,
            mattr=made_for.features,
            definition=definition,
        ),
        device=made_for.device or CPU,
        runtime=objects.needs,
        requires=made_for.requires,
        arch=target.profile.arch,
        board_class=target.profile.name,
        emulated=target.emulated,
        board=target.board or target.profile.name,
        cluster=made_for.cpu,
        threads=made_for.threads,
        glibc=target.profile.glibc,
        inputs=_tensors(model.inputs),
        outputs=_tensors(model.outputs),
        tolerance=tolerance_of(model, backend),
        tolerances=expectations[0].tolerances,
        parts=expectations[0].parts,
        sample=str(expectations[0].reference),
        reference=expectations[0].reference.computed_from[:MOST_WORDS],
        tvm=version("apache-tvm"),
        tvm_ffi=version("apache-tvm-ffi"),
        compilers=compilers_of(made_for.target),
        engine=_engine(),
        layout=backend.layout,
        dtype=backend.dtype,
        quantising=_quantising(model),
        shapes=tuple(
            ShapeFacts(
                inputs=_tensors(other.inputs),
                outputs=_tensors(other.outputs),
                flops=_flops(decisions, number),
                tolerances=expected.tolerances,
                parts=expected.parts,
            )
            for number, (other, expected) in enumerate(zip(model.others, expectations[1:], strict=True), 1)
        ),
        pad=pad,
        rates=RatesFacts(of=target.rates, cores=made_for.rates),
        format=form,
        tasks=tuple(
            TaskFacts(
                id=decision.task.id,
                name=decision.task.name,
                weight=decision.task.weight,
                tuned=decision.tuned,
                improved=decision.improved,
                source=decision.source,
                rule=decision.rule,
                products=objects.products.get(decision.task.name),
                flops=decision.task.flops,
                functions=tuple(
                    name for name, workload in objects.workloads.items() if workload == decision.task.workload
                ),
            )
            for decision in decisions
        ),
    )


def tolerance_of(model: Model, backend: Backend[Any]) -> float:
    """Return the tolerance of floating-point outputs: float16's if the model's file contains float16."""
    return TOLERANCE["float16" if holds_float16(model.onnx) else backend.dtype]


def _flops(decisions: Sequence[Decision[Any]], shape: int) -> int:
    """Return the floating-point operations of an inference in one of the network's shapes."""
    tasks = [decision.task for decision in decisions]
    return sum((task.calls[shape] if task.calls else task.weight) * task.flops for task in tasks)


def _quantising(model: Model) -> QuantisingFacts | None:
    if model.quantised is None:
        return None
    cost = model.quantised.cost.to_json()
    return QuantisingFacts.model_validate({name: cost[name] for name in QuantisingFacts.model_fields})


def _engine() -> EngineFacts:
    image = image_here()
    return EngineFacts(kind="docker", image=image, lock=lock_here()) if image else EngineFacts()


def _tensors(specs: tuple[TensorSpec, ...]) -> tuple[Tensor, ...]:
    return tuple(Tensor.model_validate(asdict(spec)) for spec in specs)


@dataclass(frozen=True)
class Content:
    """The content of a bundle, without the sample inputs and their expected outputs.

    Attributes
    ----------
    code
        The library, or the tar of its objects, as `manifest.format` says.
    objects
        The object files that were linked to the library.
    decisions
        The decisions, each with the name of the algorithm or schedule that made the code.
    """

    code: Path
    manifest: Manifest
    objects: Objects
    decisions: list[Decision[Any]]


@dataclass(frozen=True)
class Bundling:
    """The inputs that all bundles of a model for a board share, whichever points are chosen.

    Attributes
    ----------
    expectations
        Sample, expected outputs and their comparison for each of the model's `shapes`.
    linker
        The linker; None: zig.
    pad
        Whether the inputs may be padded with zeros.
    """

    model: Model
    backend: Backend[Any]
    target: BuildFor
    made_for: BoardTarget
    expectations: tuple[Expectation, ...]
    linker: Linker | None = None
    pad: bool = False

    @property
    def cases(self) -> list[tuple[Mapping[str, Array], Mapping[str, Array]]]:
        """Sample and expected outputs for each of the model's `others`."""
        return [each.arrays for each in self.expectations[1:]]

    def make(
        self,
        network: Network[Any],
        points: Mapping[str, Any],
        decisions: Sequence[Decision[Any]],
        folder: Path,
        progress: Callable[[str], None],
        form: Literal["so", "tar"] = "so",
    ) -> Content:
        """Compile a network with the given points, link it, check the library, and make the manifest.

        Parameters
        ----------
        points
            The chosen points, one per task, by workload (the hash of what a task computes). Other tasks get
            their default.
        decisions
            The decision for each task (the record or the default that was chosen), for the manifest.
        folder
            Folder for the files.
        progress
            Called with the name of each step as it begins.

        Raises
        ------
        ToolchainError
            The compiler, the linker, the disk, or the check of the library's ELF headers failed.
        """
        objects = network.compile(points, folder, progress)
        progress("linking")
        code = folder / "library.so"
        link_library(objects.files, code, self.target.profile, self.linker)
        made = [each.made_by(objects.rules[each.task.name]) for each in decisions]
        manifest = manifest_of(
            self.model,
            self.backend,
            self.target,
            self.made_for,
            form,
            objects,
            made,
            self.expectations,
            pad=self.pad,
        )
        if form == "tar":
            code = folder / "library.tar"
            write_object_tar(objects.files, code)
        return Content(code, manifest, objects, made)


def bundling(
    model: Model,
    backend: Backend[Any],
    target: BuildFor,
    made_for: BoardTarget,
    references: Sequence[Reference],
    linker: Linker | None = None,
    *,
    pad: bool = False,
) -> Bundling:
    """Compute how outputs are compared, which may run the reference several times; return the `Bundling`.

    Parameters
    ----------
    references
        A sample with its expected outputs for each of the model's `shapes`.
    """
    least, device = tolerance_of(model, backend), made_for.device or CPU
    expectations = tuple(
        expectation(shape, reference, device, backend.dtype, least)
        for shape, reference in zip(model.shapes, references, strict=True)
    )
    return Bundling(model, backend, target, made_for, expectations, linker, pad)
