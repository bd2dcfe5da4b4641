"""Functions that move the channels of a value to another axis, as from NCHW to NHWC."""

from __future__ import annotations

from toolchain.backends.packed.recognise.expressions import variables_of
from toolchain.backends.packed.recognise.read import Read, Var, loads

_CHANNELS = 1
_SUMMED = -1  # an axis that is reduced over


def moves_channels(read: Read, place: int) -> bool:
    """Return whether a parameter's channels, its axis 1, become another axis of the output.

    Such an output is better left plain. Its blocks would be of what the input keeps apart, and channels that
    lie side by side in the input would be read one by one; so would they by its readers, which mostly compute
    along the channels.
    """
    # By buffer, the output's axes that each axis of it depends on.
    axes = {read.output: [{number} for number in range(len(read.output.shape))]}
    for stage in reversed(read.stages):
        for part in stage.parts:
            if part.buffer not in axes:
                continue
            known = _by_variable(stage.axes, stage.reduce)
            for index, own in zip(stage.indices, axes[part.buffer], strict=True):
                for var in variables_of(index):
                    known[var] |= own
            for load in loads(part.value):
                found = axes.setdefault(load.source, [set() for _ in load.indices])
                for number, index in enumerate(load.indices):
                    found[number] |= set().union(*(known.get(var, set()) for var in variables_of(index)))
    param = axes.get(read.params[place])
    return param is not None and bool(param[_CHANNELS]) and not param[_CHANNELS] & {_CHANNELS, _SUMMED}


def _by_variable(axes: tuple[Var, ...], reduce: tuple[bool, ...]) -> dict[Var, set[int]]:
    return {axis: {_SUMMED} if summed else set() for axis, summed in zip(axes, reduce, strict=True)}
