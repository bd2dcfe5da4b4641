"""Sample inputs of a network, and its expected outputs as computed by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolchain.models.judging.session import Outputs, ReferenceSession
from toolchain.models.samples import Inputs, Sort, UnusableSampleError, first_usable, samples
from toolchain.models.spec import check_inputs
from toolchain.models.ties import said_of, samples_with_ties

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
    computed_from
        What the outputs were computed from, in words.
    """

    sample: Mapping[str, np.ndarray]
    outputs: Outputs
    drawn: str = ""
    instead_of: str = ""
    reason: str = ""
    computed_from: str = ""

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
            "computed_from": self.computed_from,
        }


def sample_inputs(model: Model, seed: int = 0) -> Inputs:
    """Return an array for each input, the same for the same seed, name, shape and dtype.

    Floats are standard normal, integers small and not negative, booleans even. Not every network can use
    them; see `seeded_reference`.
    """
    return samples(model.inputs, seed)


def seeded_reference(model: Model, seed: int = 0, option: str = "--sample") -> Reference:
    """Return the first sort of seeded inputs that onnxruntime can use, and its outputs.

    Inputs that an operator sees whose result depends on ties or extremes hold some, if the network can use
    them; see `models.ties`.

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
    instead_of, reason = next(iter(found.refused.items()), ("", ""))
    result, drawn = found.result, found.drawn
    for extremes in (True, False) if model.ties else ():
        inputs = samples_with_ties(model.inputs, model.ties, seed, found.sort, extremes=extremes)
        if all(np.array_equal(array, found.result[0][name]) for name, array in inputs.items()):
            break  # such as integers that are all 1, since the network divides by them
        try:
            result = inputs, session.outputs(inputs)
        except UnusableSampleError:  # such as a row that is masked as a whole: the random sample stays
            continue
        drawn = f"{found.drawn}, with {said_of(model.ties, extremes=extremes)}"
        break
    return Reference(*result, drawn, instead_of, reason, session.computed_from)


def given_reference(model: Model, inputs: Mapping[str, np.ndarray], option: str = "--sample") -> Reference:
    """Return a user's inputs with their outputs; parameters and errors as of `reference_outputs`."""
    check_inputs(model.inputs, inputs, option)
    session = ReferenceSession(model, option)
    return Reference(inputs, session.outputs(inputs), computed_from=session.computed_from)


def reference_outputs(model: Model, inputs: Mapping[str, np.ndarray], option: str = "--sample") -> Outputs:
    """Compute the outputs with onnxruntime; see `ReferenceSession`.

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
    return given_reference(model, inputs, option).outputs
