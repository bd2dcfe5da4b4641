"""What every algorithm in the table answers, whatever it computes."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.backends.packed.computed import MACHINES, named
from tests.backends.packed.contractions import TURNED, Product
from tests.backends.packed.single import Layer
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.policy import default_choice
from toolchain.backends.packed.algorithms.table import ALGORITHMS, algorithm_of, choice_from
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction, recognise
from toolchain.backends.packed.recognise.read import read


def contractions() -> dict[str, Contraction]:
    """Return a contraction of each kind."""
    layers = {
        "3x3": Layer(64, 32, (14, 14)),
        "strided": Layer(16, 40, (15, 13), stride=2),
        "groups": Layer(32, 32, (9, 9), groups=4),
        "depthwise": Layer(24, 24, (9, 9), groups=24),
        "picture": Layer(3, 16, (17, 17)),
        "few": Layer(8, 3, (9, 40)),
    }
    found: dict[str, Contraction] = {name: layer.read()[1] for name, layer in layers.items()}
    for name, function in (("product", Product(5, 6, 40).function()), ("turned", TURNED[0].function())):
        contraction = recognise(read(function))
        assert contraction is not None
        found[name] = contraction
    return found


CONTRACTIONS = contractions()


def test_names_are_different() -> None:
    names = [algorithm.name for algorithm in ALGORITHMS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("machine", MACHINES, ids=named)
@pytest.mark.parametrize("kind", CONTRACTIONS)
def test_an_algorithm_that_applies_has_legal_choices_that_records_keep(kind: str, machine: Machine) -> None:
    contraction = CONTRACTIONS[kind]
    applying = [each for each in ALGORITHMS if each.applies(contraction, machine)]
    assert [each.name for each in applying][-1] == "general"
    assert len(applying) > 1
    for algorithm in applying:
        default = algorithm.default(contraction, machine)
        choices = [*algorithm.candidates(contraction, machine), *([] if default is None else [default])]
        for choice in choices:
            assert isinstance(choice, algorithm.choice)
            assert algorithm_of(choice) is algorithm
            assert algorithm.legal(choice, contraction, machine)
            assert choice_from(choice.to_json()) == choice


@pytest.mark.parametrize("machine", MACHINES, ids=named)
@pytest.mark.parametrize("kind", CONTRACTIONS)
def test_packed_algorithms_say_what_they_read_and_plain_ones_read_nothing_else(
    kind: str, machine: Machine
) -> None:
    contraction = CONTRACTIONS[kind]
    choice = default_choice(contraction, machine, use_winograd=True)
    algorithm = algorithm_of(choice)
    assert choice != GENERAL
    source, halo = algorithm.source(contraction), algorithm.halo(contraction, choice, machine)
    if algorithm.values == "packed":
        assert source.same_as(contraction.x)
        assert len(halo) == 2 * len(contraction.out) and min(halo) >= 0
    else:
        assert (source, halo) == (None, ())


def test_every_choice_can_be_made_without_knobs() -> None:
    for algorithm in ALGORITHMS:
        choice = algorithm.choice()
        own = {own.metadata.get("key", own.name) for own in fields(choice)}
        assert set(choice.knobs) >= own - {
            "arithmetic",
            "group",
            "loads",
        }  # those are written where they say something
