"""Makes the content of a bundle from the chosen points, one per task.

`build` writes it to a file; a tuning run makes bundles to time whole networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from toolchain.arrays import Array
from toolchain.building.decide import Decision
from toolchain.building.manifest import manifest_of, tolerance_of
from toolchain.building.tolerances import Expectation, expectation
from toolchain.bundles.manifest import Manifest
from toolchain.devices.device import CPU
from toolchain.linking.library import link_library
from toolchain.linking.linker import Linker
from toolchain.lowering.objects.export import write_object_tar
from toolchain.models.judging.reference import Reference
from toolchain.models.load import Model
from toolchain.targets.build_for import BuildFor
from toolchain.targets.target import BoardTarget
from toolchain.tasks.backend import Backend, Network, Objects


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
