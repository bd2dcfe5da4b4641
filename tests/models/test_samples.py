"""What seeded inputs are drawn from."""

from __future__ import annotations

from toolchain.models.samples import Inputs, Sort, UnusableSampleError, first_usable, samples, sorts_for
from toolchain.models.spec import TensorSpec

PICTURE = TensorSpec("picture", (1, 40, 40, 3), "int8")
WORDS = TensorSpec("words", (1, 40), "int64")


def test_integers_of_8_bits_have_their_whole_range_and_others_are_small() -> None:
    drawn = samples([PICTURE, WORDS])
    assert (drawn["picture"].min(), drawn["picture"].max()) == (-128, 127)
    assert (drawn["words"].min(), drawn["words"].max()) == (0, 3)
    assert sorts_for([PICTURE, WORDS])[0].shown([PICTURE, WORDS]) == (
        "8-bit integers over their whole range, integers 0 to 3"
    )


def test_a_network_that_cannot_use_the_whole_range_gets_small_integers() -> None:
    def attempt(sort: Sort) -> Inputs:
        drawn = samples([PICTURE], sort=sort)
        if drawn["picture"].max() > 3:
            raise UnusableSampleError("no", "", "too large")
        return drawn

    found = first_usable([PICTURE], attempt)
    assert found.drawn == "integers 0 to 3"
    assert found.refused == {"8-bit integers over their whole range": "too large"}
