"""What onnxruntime takes is computed as it does; what it refuses is refused, here by this process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
import tvm

from tests.backends.packed.computed import loaded
from tests.lowering.executable import virtual_machine
from tests.models.bounds.cases import CASES, Case
from toolchain.arrays import Array
from toolchain.backends.packed.machines import AVX2
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import rewrite
from toolchain.lowering.graph.pipeline import fuse
from toolchain.models.integer_sessions import ask_for_integers
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow

Compute = Callable[[dict[str, Array]], Array]


def theirs(case: Case) -> Compute:
    """Return what computes a network by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = ask_for_integers(options, case.model()).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)[0]


def ours(case: Case) -> Compute:
    """Return what computes a network by generated code."""
    target = target_for(load_profile("x86_64")).target
    made = rewrite(fuse(loaded(case.model()).module, target), Choices(AVX2.of(2)))
    machine = virtual_machine(made.module, target)
    return lambda inputs: machine["main"](*map(tvm.runtime.tensor, inputs.values())).numpy()


def outside(array: Array, low: int, high: int) -> list[int]:
    """Return numbers that no node takes where it takes those from `low` to `high`."""
    found = [low - 1, low - 2, high + 1, high + 2, np.iinfo(array.dtype).min, np.iinfo(array.dtype).max]
    return found + ([2**32, 2**32 + high, -(2**32)] if array.dtype == np.int64 else [])


def with_one(
    inputs: dict[str, Array], name: str, value: object, random: np.random.Generator
) -> dict[str, Array]:
    """Return the inputs with one number of one of them replaced."""
    changed = inputs[name].copy()
    changed.flat[random.integers(changed.size)] = value
    return {**inputs, name: changed}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_values(case: Case) -> None:
    random = np.random.default_rng(1)
    due, found = theirs(case), ours(case)
    np.testing.assert_allclose(found(case.given), due(case.given), rtol=1e-5, atol=1e-5)
    for name, (low, high) in case.judged.items():
        for end in (low, high):
            whole = {**case.given, name: np.full_like(case.given[name], end)}
            if case.operator not in (
                "ScatterND",
                "ScatterElements",
                "Scatter",
                "MaxUnpool",
            ):  # which of them is last?
                np.testing.assert_allclose(found(whole), due(whole), rtol=1e-5, atol=1e-5)
        for value in outside(case.given[name], low, high):
            bad = with_one(case.given, name, value, random)
            with pytest.raises(Exception, match=r"\S"):
                due(bad)
            with pytest.raises(ValueError, match=f"input '{name}' holds {value}, and node "):
                found(bad)
    np.testing.assert_allclose(found(case.given), due(case.given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "case", [each for each in CASES if each.operator in ("Div", "Mod")], ids=lambda case: case.name
)
def test_divisors(case: Case) -> None:
    found, random = ours(case), np.random.default_rng(2)
    with pytest.raises(ValueError, match=r"input 'd' holds 0, and node 'it' .* divides by it"):
        found(with_one(case.given, "d", 0, random))
    if (least := np.iinfo(case.given["x"].dtype).min) == 0:
        return
    # onnxruntime ends this process where the least integer is divided by -1.
    worst = {"x": np.full_like(case.given["x"], least), "d": np.full_like(case.given["d"], -1)}
    assert (found(worst) == (least if case.operator == "Div" else 0)).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_regions_are_finite(value: float) -> None:
    case = next(each for each in CASES if each.operator == "RoiAlign")
    with pytest.raises(
        ValueError, match=r"input 'regions' holds .*, and node 'it' \(RoiAlign\) takes coordinates"
    ):
        ours(case)(with_one(case.given, "regions", value, np.random.default_rng(3)))


@pytest.mark.parametrize("value", [-1, 2, 1e9, np.nan])
def test_refuses_region_of_missing_image(value: float) -> None:
    case = next(each for each in CASES if each.operator == "MaxRoiPool")
    found, bad = ours(case), case.given["regions"].copy()
    bad[1, 0] = value
    with pytest.raises(
        ValueError, match=r"input 'regions' holds .*, and node 'it' \(MaxRoiPool\) takes images"
    ):
        found({**case.given, "regions": bad})
    bad[1] = [1, np.nan, -1e30, np.inf, 1e30]
    assert np.isfinite(found({**case.given, "regions": bad})).all()


def test_circular_cache_has_lower_bound_only() -> None:
    case = next(each for each in CASES if each.attributes.get("mode") == "circular")
    found, due = ours(case), theirs(case)
    for value, random in ((4, 1), (7, 2), (2**63 - 2, 3)):
        given = with_one(case.given, "begin", value, np.random.default_rng(random))
        np.testing.assert_array_equal(found(given), due(given))
    with pytest.raises(ValueError, match="input 'begin' holds -1, and node 'it'"):
        found(with_one(case.given, "begin", -1, np.random.default_rng(4)))
