"""The architectures that code for CUDA is made for, as board.toml names them."""

from __future__ import annotations

import pytest

from toolchain.devices.cuda_architectures import architectures_of, number_of
from toolchain.devices.device import Device
from toolchain.devices.table import CUDA
from toolchain.profiles import load_profile

LIMITS = {"compute_units": 8, "max_work_group": 1024, "local_bytes": 49152, "private_bytes": 1020}


def device(arch: object) -> Device:
    return Device.model_validate({"kind": "cuda", **LIMITS, "vector_bytes": 16, "half": True, "arch": arch})


@pytest.mark.parametrize(
    ("arch", "names"),
    [
        ("sm_90", ("sm_90",)),
        (["sm_120", "sm_80", "sm_90", "sm_80"], ("sm_80", "sm_90", "sm_120")),
        (["sm_80", "emulated"], ("emulated", "sm_80")),
    ],
)
def test_architectures_are_in_the_order_of_their_age(arch: object, names: tuple[str, ...]) -> None:
    assert architectures_of(device(arch)) == names


@pytest.mark.parametrize("arch", ["", [], "sm_75", "sm_9", "SM_90", "compute_90", "sm_90 ", 90, ["sm_80", 3]])
def test_others_are_refused(arch: object) -> None:
    with pytest.raises(ValueError, match="arch is"):
        architectures_of(device(arch))


def test_a_target_names_all_of_them() -> None:
    assert CUDA.target_options is not None
    options = CUDA.target_options(device(["emulated", "sm_80", "sm_90"]))
    assert options["arch"] == "sm_80" and options["keys"] == ["cuda", "gpu", "emulated", "sm_80", "sm_90"]
    assert CUDA.target_options(device("emulated"))["arch"] == "sm_80"


def test_the_shipped_classes_have_code_for_their_gpus() -> None:
    assert [number_of(name) for name in architectures_of(load_profile("cuda").device("cuda"))] == [
        80,
        90,
        120,
    ]
    assert architectures_of(load_profile("jetson-orin").device("cuda")) == ("sm_87",)
