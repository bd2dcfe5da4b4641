"""Chooses the scales of a plan's tensors by computing the float graph for sample inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolchain.models.quantising.affine.histogram import Histogram
from toolchain.models.quantising.affine.index import Index
from toolchain.models.quantising.affine.plan import IntegerPlan
from toolchain.models.quantising.affine.ranges import METHODS, whole
from toolchain.models.quantising.affine.scales import Scale, scale_for
from toolchain.models.quantising.calibration import Inputs, Tapped
from toolchain.models.quantising.refusing import check_computed


def calibrate(
    index: Index,
    plan: IntegerPlan,
    shared: Mapping[str, str],
    quantizer: str,
    images: Sequence[Inputs],
    origin: str,
) -> dict[str, Scale]:
    """Return the scale of each rounded tensor.

    What a float layer or a user reads keeps its whole range, whatever the quantizer: clipping the largest
    logits would make them equal.

    Parameters
    ----------
    shared
        Rounded tensor -> the tensor whose values decide its scale.
    quantizer
        A key of `METHODS`.

    Raises
    ------
    UnusableSampleError
        onnxruntime cannot compute the graph for these inputs, or not with finite numbers.
    """
    tapped = Tapped(index.model, set(shared.values()), origin)
    histograms = {name: Histogram() for name in shared.values()}
    for number, inputs in enumerate(images):
        for name, values in tapped.values(inputs).items():
            check_computed(name, values, number, origin)
            histograms[name].add(values)
    read = {shared[name] for name in plan.rounded if _read_as_float(index, plan, name)}
    scales = {
        name: scale_for(*(whole if name in read else METHODS[quantizer])(histogram))
        for name, histogram in histograms.items()
    }
    return {name: scales[source] for name, source in shared.items()}


def _read_as_float(index: Index, plan: IntegerPlan, name: str) -> bool:
    return name in index.outputs or any(at not in plan.roles for at in index.readers.get(name, ()))
