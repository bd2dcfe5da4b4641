"""Candidates of a function that is split are compared with the part that they compute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.models.quantising.affine.networks import Net
from toolchain.backends.packed.backend import Packed
from toolchain.backends.packed.network.alone import alone
from toolchain.backends.packed.network.measured import measured
from toolchain.boards.inventory.lookup import find_target
from toolchain.lowering.functions.tasks import PlainFunction, plain_function
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.tasks.options import CodeOptions
from toolchain.tuning.boards.cases import drawn


def computed(reference: PlainFunction, arguments: dict[int, np.ndarray]) -> np.ndarray:
    values = [
        arguments[place] if parameter.value is None else parameter.value
        for place, parameter in enumerate(reference.parameters)
    ]
    ((result,),) = reference.outputs([values])
    return result


@pytest.mark.slow
def test_a_convolution_that_is_rounded_is_compared_with_its_sums(tmp_path: Path) -> None:
    net = Net()
    net.conv(net.conv("data", "x", (3, 16), 3), "y", (16, 16))
    onnx.save(net.model("y"), tmp_path / "net.onnx")
    loaded = load_model(str(tmp_path / "net.onnx"), ModelOptions(quantizer="minmax"))
    model = replace(loaded, rounding=None)  # as for a machine that multiplies no integers
    backend = Packed(find_target("x86_64").profile, CodeOptions(dtype="int8"))
    with backend.lower(model, backend.target()) as network:
        for task in network.tasks:
            whole, part = (own := network.fused_task(task)), measured(own, network.choices)
            made = alone(own, network.choices)
            # Shapes of weights are packed in what is made.
            assert part.parameters[-1].shape == made.parameters[-1].shape
            assert [each.dtype for each in part.parameters] == [each.dtype for each in made.parameters]
            if part is whole:
                continue
            arguments = drawn(plain_function(part).parameters, 0)
            sums, integers = (computed(plain_function(each), arguments) for each in (part, whole))
            assert sums.dtype == np.float32
            if integers.dtype == np.uint8:
                inside = (sums > 1) & (sums < 254)
                difference = np.rint(sums) - integers
                assert inside.any() and len(np.unique(difference[inside])) == 1, "all but the zero point"
