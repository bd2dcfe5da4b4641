"""Sample inputs of a network, and its expected outputs as computed by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolchain.models.judging.session import Outputs, ReferenceSession
from toolchain.models.samples import Inputs, Sort, first_usable, samples
from toolchain.models.spec import check_inputs

if TYPE_CHECKING:
    from toolchain.models.load import Model


@dataclass(frozen=True)
class Reference:
    """A sample and its expected outputs.

    Attributes
    ----------
    drawn
        How the sample's values were drawn, in words; empty if a user gave them.
    instead_of
        The sort of sample that was tried first, if the network could not use it.
    reason
        Why the network could not use it.
    """

    sample: Mapping[str, np.ndarray]
    outputs: Outputs
    drawn: str = ""
    instead_of: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if not self.drawn:
            return "as given"
        why = f"; {self.instead_of} are no use: {self.reason}" if self.instead_of else ""
        return f"seeded, {self.drawn}{why}"

    def to_json(self) -> dict[str, Any]:
        """Return the origin of the sample as a JSON object."""
        return {
            "given": not self.drawn,
            "drawn": self.drawn or None,
            "instead_of": self.instead_of or None,
            "reason": self.reason or None,
        }


def sample_inputs(model: Model, seed: int = 0) -> Inputs:
    """Return an array for each input, the same for the same seed, name, shape and dtype.

    Floats are standard normal, integers small and not negative, booleans even. Not every network can use
    them; see `seeded_reference`.
    """
    return samples(model.inputs, seed)


def seeded_reference(model: Model, seed: int = 0, option: str = "--sample") -> Reference:
    """Return the first sort of seeded inputs that onnxruntime can use, and its outputs.

    Parameters
    ----------
    option
        Command-line option with which users give their own sample; the hints of errors name it.

    Raises
    ------
    UsageError
        onnxruntime cannot run the graph, or with none of the sorts; see `samples.SORTS`.
    """
    session = ReferenceSession(model, option)

    def attempt(sort: Sort) -> tuple[Inputs, Outputs]:
        inputs = samples(model.inputs, seed, sort)
        return inputs, session.outputs(inputs)

    found = first_usable(model.inputs, attempt)
    return Reference(*found.result, found.drawn, *next(iter(found.refused.items()), ("", "")))


def reference_outputs(model: Model, inputs: Mapping[str, np.ndarray], option: str = "--sample") -> Outputs:
    """Compute the outputs with onnxruntime on the source graph.

    Parameters
    ----------
    option
        Command-line option with which users give their own sample; error messages name it.

    Raises
    ------
    UsageError
        The inputs don't fit, onnxruntime cannot run the graph, or an output is NaN or infinite,
        which nothing can be compared with.
    """
    check_inputs(model.inputs, inputs, option)
    return ReferenceSession(model, option).outputs(inputs)
