"""What the schedules for a small GPU are: drawn at random, each keeps to the device."""

from __future__ import annotations

from random import Random

import onnx
import pytest

from tests.backends.packed.computed import loaded
from tests.backends.packed.single import Layer
from tests.opencl.networks import layer
from toolchain.backends.table import backend_for
from toolchain.backends.tensorir.backend import TensorIRNetwork
from toolchain.backends.tensorir.rules import private_bytes_of
from toolchain.backends.tensorir.space import TraceSpace
from toolchain.lowering.functions.definition import module_of
from toolchain.profiles import Profile, load_profile
from toolchain.tasks.candidate import DeviceCode
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow
_DRAWS = 3
_RK3399 = load_profile("rk3399")
_MALI = CodeOptions(device="opencl", layout="NHWC")


def lowered(
    model: onnx.ModelProto, profile: Profile = _RK3399, options: CodeOptions = _MALI
) -> TensorIRNetwork:
    """Return a network in NHWC, for the Mali of an rk3399 if nothing else is said."""
    backend = backend_for(profile, options)
    found = backend.lower(loaded(model), backend.target())
    assert isinstance(found, TensorIRNetwork)
    return found


@pytest.mark.parametrize(
    ("of", "vectors"),
    [
        (Layer(ci=16, co=32, size=(14, 14)), True),
        (Layer(ci=16, co=32, size=(14, 14), kernel=1, pad=0), True),
        (Layer(ci=16, co=16, size=(14, 14), stride=2, groups=16), True),
        (Layer(ci=3, co=6, size=(8, 8)), False),  # no vector fits 6 channels
    ],
    ids=str,
)
def test_schedules_of_a_convolution_keep_to_the_device(of: Layer, vectors: bool) -> None:
    limit = _RK3399.device("opencl").private_bytes
    assert limit
    with lowered(layer(of)) as network:
        task = next(each for each in network.tasks if "relu" in each.name)
        space = network.space(task)
        points = [space.sample(Random(seed)) for seed in range(_DRAWS)]
        for point in points:
            source = network.code(task, point, "opencl")
            assert "__kernel void" in source
            assert ("vload4" in source and "vstore4" in source) or not vectors
            assert "barrier(" not in source and "__local" not in source
            module = module_of(space.scheduled(point, network.fused_task(task).func))
            assert 0 < private_bytes_of(module) <= limit
            assert not any("vthread" in each or "shared" in each for each in module.script().splitlines())


def test_schedules_without_a_record_run_on_work_items() -> None:
    with lowered(layer(Layer(ci=4, co=8, size=(6, 6)))) as network:
        for task in network.tasks:
            space = network.space(task)
            assert isinstance(space, TraceSpace) and space.rule(space.default()) == "dlight"
            source = network.code(task, space.default(), "opencl")
            assert "__kernel void" in source and "get_local_id" in source


def test_schedules_for_cuda_share_tiles_and_compile() -> None:
    options = CodeOptions(device="cuda", layout="NHWC", arch="sm_90")
    with lowered(layer(Layer(ci=32, co=32, size=(14, 14))), load_profile("cuda"), options) as network:
        task = next(each for each in network.tasks if "relu" in each.name)
        space = network.space(task)
        for seed in range(_DRAWS):
            candidate = space.candidate(space.sample(Random(seed)))
            assert isinstance(candidate.code, DeviceCode)
            for kernel in candidate.code.launches():
                (needed,) = kernel.resources
                assert needed.local_bytes > 0 and kernel.barriers > 0 and needed.spilled_bytes == 0
