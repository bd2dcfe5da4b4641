"""New names of tensors: none is given twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolchain.models.onnx_graph import Names

# Names as they come: some look like those that are made of others.
like = st.lists(st.sampled_from(["a", "b"]), min_size=1).map("".join) | st.builds(
    "{}.{}".format, st.sampled_from(["a", "a.1"]), st.integers(1, 3)
)


@given(taken=st.sets(like), asked=st.lists(like))
def test_no_name_is_given_twice(taken: set[str], asked: list[str]) -> None:
    names = Names()
    for name in taken:
        names.take(name)
    given_out = [names.free(name) for name in asked]
    assert len({*taken, *given_out}) == len(taken) + len(asked)
    for name, found in zip(asked, given_out, strict=True):
        assert found == name or found.startswith(f"{name}.")


def test_a_name_that_is_free_is_kept() -> None:
    names = Names()
    names.take("x")
    assert [names.free("y"), names.free("x"), names.free("x"), names.free("x.1")] == [
        "y",
        "x.1",
        "x.2",
        "x.1.1",
    ]


def test_thousand_equal_names_take_linear_time() -> None:
    names = Names()
    assert len({names.free("body.weight") for _ in range(50_000)}) == 50_000
