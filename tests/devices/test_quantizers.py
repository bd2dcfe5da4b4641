"""Each kind of device names the quantizers that its code can compute."""

from __future__ import annotations

import pytest

from toolchain.devices.kind import DeviceKind
from toolchain.devices.table import OWN
from toolchain.models.options import POWERS_OF_TWO, QUANTIZERS


@pytest.mark.parametrize("kind", [*OWN.values(), DeviceKind(name="plugin")], ids=lambda kind: kind.name)
def test_they_exist_and_the_default_suits_the_device(kind: DeviceKind) -> None:
    assert len(set(kind.quantizers)) == len(kind.quantizers) and set(kind.quantizers) <= set(QUANTIZERS)
    assert kind.quantizers[0] == ("mse" if kind.name == "cpu" else "power-of-two")


def test_a_vta_shifts() -> None:
    assert OWN["vta"].quantizers == POWERS_OF_TWO
