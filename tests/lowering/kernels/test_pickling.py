"""Recipes as bytes: equal for equal recipes, whatever their variables are called, and whole again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tvm_ffi
from tvm import te, tirx

from toolchain.backends.packed import machines
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.network.recipe import Computed, Moved
from toolchain.backends.packed.recognise.contraction import recognise
from toolchain.backends.packed.recognise.read import read
from toolchain.lowering.kernels.pickling import pickled, unpickled
from toolchain.lowering.kernels.recipe import Recipe, Scheduled

MACHINE = machines.AVX2.of(2)


def function(x: str = "x", factor: float = 2.0) -> tirx.PrimFunc:
    source = te.placeholder((1, 16, 6, 6), "float32", name=x)
    result = te.compute(source.shape, lambda *place: source(*place) * factor, name=f"{x}_scaled")
    return te.create_prim_func([source, result])


def computed(*arguments: object) -> Computed:
    layout = Layout(8, (1, 1, 1, 1))
    return Computed(read(function(*arguments)), (layout, None), MACHINE)


def convolution() -> Computed:
    from tvm import topi

    x = te.placeholder((1, 16, 8, 8), "float32", name="x")
    weight = te.placeholder((16, 16, 3, 3), "float32", name="weight")
    y = topi.nn.relu(topi.nn.conv2d(x, weight, 1, 1, 1))
    found = read(te.create_prim_func([x, weight, y]))
    contraction = recognise(found)
    assert contraction is not None
    choice = default_choice(contraction, MACHINE, True)
    assert choice is not None
    halo = Layout(8, (1, 1, 1, 1))
    return Computed(found, (halo, None, replace(halo, halo=(0, 0, 0, 0))), MACHINE, choice, contraction)


def same(one: tirx.PrimFunc, other: tirx.PrimFunc) -> bool:
    return bool(tvm_ffi.structural_equal(one, other))


def test_names_of_variables_do_not_count() -> None:
    assert pickled(computed("lv17")) == pickled(computed("lv4"))
    assert pickled(Scheduled(function("lv17"))) != pickled(Scheduled(function("lv17", 3.0)))


def test_all_that_decides_about_the_code_counts() -> None:
    recipe = computed()
    choice = convolution().choice
    assert isinstance(choice, WinogradChoice)
    others: list[Recipe] = [
        computed("x", 3.0),
        replace(recipe, layouts=(None, None)),
        replace(recipe, layouts=(Layout(8, (0, 0, 0, 0)), None)),
        replace(recipe, machine=replace(MACHINE, threads=4)),
        Moved((1, 16, 6, 6), "float32", None, Layout(8, (1, 1, 1, 1)), MACHINE),
        Moved((1, 16, 6, 6), "float16", None, Layout(8, (1, 1, 1, 1)), MACHINE),
        convolution(),
        replace(convolution(), choice=replace(choice, blocks=1)),
    ]
    found = [pickled(each) for each in (recipe, *others)]
    assert len({*found}) == len(found)


def test_the_function_is_the_same_when_it_is_made_elsewhere() -> None:
    moved = Moved((1, 16, 6, 6), "float32", None, Layout(8, (1, 1, 1, 1)), MACHINE)
    for recipe in (computed(), convolution(), moved, Scheduled(function())):
        there = unpickled(pickled(recipe))
        assert same(there.function(), recipe.function())
        assert there.arity == recipe.arity == len(recipe.function().params)


def test_a_name_that_means_something_elsewhere_stays_there() -> None:
    recipe = Scheduled(function("global"))
    assert same(unpickled(pickled(recipe)).function(), recipe.func)
    assert np.prod([int(extent) for extent in unpickled(pickled(recipe)).function().params[0].shape]) == 576


def test_what_was_found_out_about_a_function_is_not_part_of_it() -> None:
    """Else an object's name would depend on what was asked before."""
    recipe = computed()
    before = pickled(recipe)
    assert recipe.read.by_element and recipe.read.readers(recipe.read.params[0])
    assert pickled(recipe) == before
