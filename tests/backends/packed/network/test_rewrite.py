"""What becomes of the zoo's functions: each has a rule, and none is a loop over single numbers."""

from __future__ import annotations

from math import prod

import pytest
import tvm_ffi
from tvm import tirx

from toolchain.backends.packed.machines import OPENCL, machine_of
from toolchain.backends.packed.network.choices import Choices
from toolchain.backends.packed.network.rewrite import ROWS, rewrite
from toolchain.lowering.graph.pipeline import fuse
from toolchain.lowering.kernels.recipe import Recipe
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

SMALL = 4096  # numbers that may be computed one by one

# Network -> how many of its functions got each rule, on AVX-512 (block of 16 channels).
RULES = {
    "squeezenet_v1.1": {"in place": 4, "general": 5},
    "mobilenet": {"depthwise": 9, "dense": 1, "general": 2},
    "resnet-18": {"dense": 1, "general": 3},
    "inception_v3": {"in place": 6, "dense": 1, "general": 12},
    "resnet3d-18": {"dense": 1, "general": 2},
    "vgg-11": {"dense": 3, "general": 6},
}


def scalar(func: tirx.PrimFunc) -> int:
    """Return how many numbers a function computes outside of vectors."""
    wide = False

    def loop(each: tirx.For) -> None:
        nonlocal wide
        wide |= each.kind == tirx.ForKind.VECTORIZED and int(each.extent) > 1

    def shuffle(_each: tirx.Shuffle) -> None:
        nonlocal wide
        wide = True

    tvm_ffi.structural_walk(func.body, [(tirx.For, loop), (tirx.Shuffle, shuffle)])
    largest = max(prod(int(extent) for extent in param.shape) for param in func.params)
    return 0 if wide else largest


def empty(recipe: Recipe) -> tirx.PrimFunc:
    """Return a function in place of one that takes a while to generate."""
    return tirx.PrimFunc([tirx.Var("_", "handle") for _ in range(recipe.arity)], tirx.Evaluate(0))


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_functions_of_the_zoo(name: str) -> None:
    model = load_model(f"zoo:{name}", ModelOptions())
    target = target_for(load_profile("x86_64"))
    fused = fuse(model.module, target.target)
    machine = machine_of(target)
    made = rewrite(fused, Choices(machine))
    listed = {rule: list(made.rules.values()).count(rule) for rule in set(made.rules.values())}
    assert ROWS not in listed, made.rules
    assert {rule: listed.get(rule) for rule in RULES[name]} == RULES[name], made.rules
    functions = {
        var.name_hint: func for var, func in made.module.functions.items() if isinstance(func, tirx.PrimFunc)
    }
    assert {each: scalar(func) for each, func in functions.items() if scalar(func) > SMALL} == {}
    on_device = rewrite(fused, Choices(OPENCL), empty).rules.values()
    assert ROWS not in on_device and {"direct", "general"} <= {*on_device}
