"""Networks whose factors are rounded to tfloat32: who may, with which tolerance, and by which records."""

from __future__ import annotations

import pytest

from toolchain.backends.packed.kinds import KINDS, TFLOAT32_KINDS
from toolchain.backends.packed.space import PackedSpace
from toolchain.backends.table import backend_for
from toolchain.errors import UsageError
from toolchain.measuring.numerics import TOLERANCE
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.tasks.options import CodeOptions

SMALL = ModelOptions(shapes={"data": (1, 3, 32, 32)})


@pytest.mark.parametrize(
    ("board", "device", "said"),
    [
        ("rk3399", "cpu", "only tensor cores multiply tfloat32"),
        ("rk3399", "opencl", "opencl devices have no tensor cores"),
    ],
)
def test_what_has_no_tensor_cores_refuses_it(board: str, device: str, said: str) -> None:
    backend = backend_for(load_profile(board), CodeOptions(device=device, dtype="tfloat32"))
    with pytest.raises(UsageError, match=f"--dtype tfloat32: .*{said}"):
        backend.target()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "kinds", "arithmetic"),
    [("float32", KINDS, {"3xtf32", "fma"}), ("tfloat32", TFLOAT32_KINDS, {"tf32"})],
)
def test_only_who_asks_for_it_gets_rounded_factors(
    dtype: str, kinds: tuple[str, ...], arithmetic: set[str]
) -> None:
    backend = backend_for(load_profile("cuda"), CodeOptions(device="cuda", arch="sm_90", dtype=dtype))
    with backend.lower(load_model("zoo:resnet-18", SMALL), backend.target()) as network:
        found = set()
        for task in network.tasks:
            space = network.space(task)
            assert isinstance(space, PackedSpace)
            assert space.kinds == kinds == (space.entry(space.default()).kind,)
            found |= {getattr(point, "arithmetic", None) for point in space.points} - {None}
    assert arithmetic <= found
    assert ("tf32" in found) == (dtype == "tfloat32")


def test_its_tolerance_is_between_those_of_its_neighbours() -> None:
    assert TOLERANCE["float32"] < TOLERANCE["tfloat32"] <= TOLERANCE["float16"]
