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
from toolchain.models.importing.importer import holds_float16
from toolchain.models.judging.reference import Reference
from toolchain.models.load import Model
from toolchain.models.spec import TensorSpec
from toolchain.targets.build_for import BuildFor
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network, Objects


@dataclass(frozen=True)
class Compilation:
    """A network, the board that it is compiled for, and the backend that makes its code.

    Attributes
    ----------
    build_for
        The board or the board class.
    target
        What the code is generated for: one of the board's clusters, or a device.
    """

    model: Model
    backend: Backend[Any]
    build_for: BuildFor
    target: BoardTarget

    @property
    def tolerance(self) -> float:
        """Tolerance of floating-point outputs: float16's if the model's file contains float16."""
        return TOLERANCE["float16" if holds_float16(self.model.onnx) else self.backend.dtype]


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
    """The inputs that all bundles of a compilation share, whichever points are chosen.

    Attributes
    ----------
    expectations
        Sample, expected outputs and their comparison for each of the model's `shapes`.
    linker
        The linker; None: zig.
    pad
        Whether the inputs may be padded with zeros.
    """

    compilation: Compilation
    expectations: tuple[Expectation, ...]
    linker: Linker | None = None
    pad: bool = False

    @property
    def cases(self) -> list[tuple[Mapping[str, Array], Mapping[str, Array]]]:
        """Sample and expected outputs for each of the model's `others`."""
        return [expectation.arrays for expectation in self.expectations[1:]]

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
        link_library(objects.files, code, self.compilation.build_for.profile, self.linker)
        explained = [decision.made_by(objects.rules[decision.task.name]) for decision in decisions]
        manifest = self.manifest(form, objects, explained)
        if form == "tar":
            code = folder / "library.tar"
            write_object_tar(objects.files, code)
        return Content(code, manifest, objects, explained)

    def manifest(
        self, form: Literal["so", "tar"], objects: Objects, decisions: Sequence[Decision[Any]]
    ) -> Manifest:
        """Return the manifest of a bundle, without the list of its files.

        Parameters
        ----------
        form
            Whether the bundle contains a library or a tar of its objects.
        decisions
            The decision for each task, with the name of what made its code.
        """
        model, target = self.compilation.model, self.compilation.target
        build_for, backend = self.compilation.build_for, self.compilation.backend
        definition = json.loads(str(target.target))
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
                triple=target.triple,
                mcpu=target.cpu,
                mattr=target.features,
                definition=definition,
            ),
            device=target.device or CPU,
            runtime=objects.needs,
            requires=target.requires,
            arch=build_for.profile.arch,
            board_class=build_for.profile.name,
            emulated=build_for.emulated,
            board=build_for.board or build_for.profile.name,
            cluster=target.cpu,
            threads=target.threads,
            glibc=build_for.profile.glibc,
            inputs=_tensors(model.inputs),
            outputs=_tensors(model.outputs),
            tolerance=self.compilation.tolerance,
            tolerances=self.expectations[0].tolerances,
            parts=self.expectations[0].parts,
            sample=str(self.expectations[0].reference),
            reference=self.expectations[0].reference.computed_from[:MOST_WORDS],
            tvm=version("apache-tvm"),
            tvm_ffi=version("apache-tvm-ffi"),
            compilers=compilers_of(target.target),
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
                for number, (other, expected) in enumerate(
                    zip(model.others, self.expectations[1:], strict=True), 1
                )
            ),
            pad=self.pad,
            rates=RatesFacts(of=build_for.rates, cores=target.rates),
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
                        name
                        for name, workload in objects.workloads.items()
                        if workload == decision.task.workload
                    ),
                )
                for decision in decisions
            ),
        )


def bundling(
    compilation: Compilation,
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
    least, device = compilation.tolerance, compilation.target.device or CPU
    expectations = tuple(
        expectation(shape, reference, device, compilation.backend.dtype, least)
        for shape, reference in zip(compilation.model.shapes, references, strict=True)
    )
    return Bundling(compilation, expectations, linker, pad)


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
