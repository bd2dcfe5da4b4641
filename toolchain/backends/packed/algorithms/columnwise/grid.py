"""Describes the input windows of a transposed convolution as those of a convolution with stride 1."""

from __future__ import annotations

from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.transposed import Transposed


def grid_of(contraction: Convolution | Transposed) -> Convolution:
    """Return the convolution itself; for a transposed one, the convolution whose windows its phases read.

    One window has all inputs for the outputs of all phases at one input place: stride x stride outputs.
    """
    if isinstance(contraction, Convolution):
        return contraction
    axes = range(len(contraction.out))
    places = tuple(-(-out // stride) for out, stride in zip(contraction.out, contraction.stride, strict=True))
    before = contraction.pads[: len(places)]
    furthest = [max(0, *(each.offset for each in contraction.phases(axis))) for axis in axes]
    after = (
        max(0, place - 1 + far - size + 1)
        for place, far, size in zip(places, furthest, contraction.size, strict=True)
    )
    ones = (1,) * len(places)
    return Convolution(
        batch=contraction.batch,
        ci=contraction.ci,
        co=contraction.co,
        groups=contraction.groups,
        size=contraction.size,
        kernel=tuple(pad + far + 1 for pad, far in zip(before, furthest, strict=True)),
        out=places,
        stride=ones,
        dilation=ones,
        x=contraction.x,
        weight=contraction.weight,
        y=contraction.y,
        pads=(*before, *after),
    )
