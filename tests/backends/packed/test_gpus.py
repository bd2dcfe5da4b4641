"""The GPU that code suits, by the architectures that it is made for."""

from __future__ import annotations

import pytest

from toolchain.backends.packed.gpus import gpu_of
from toolchain.devices.cuda_architectures import VARIABLE, native_architectures
from toolchain.devices.device import Device

LIMITS = {"compute_units": 8, "max_work_group": 1024, "local_bytes": 49152, "private_bytes": 1020}


def units(*arch: str) -> int:
    return gpu_of(Device.model_validate({"kind": "cuda", **LIMITS, "arch": list(arch)})).units


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        (("sm_80",), 108),
        (("sm_86",), 82),
        (("sm_87",), 16),
        (("sm_89",), 128),
        (("sm_100",), 132),  # without a row: the next older one's
        (("sm_120", "sm_90"), 132),
        (("emulated",), 108),
        (("emulated", "sm_90"), 132),
    ],
)
def test_it_is_that_of_the_oldest_architecture(arch: tuple[str, ...], expected: int) -> None:
    assert units(*arch) == expected


def test_for_this_hosts_gpu_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sm_89")
    native_architectures.cache_clear()
    try:
        assert units("native") == 128
    finally:
        native_architectures.cache_clear()
