"""The networks that an acceptance goes through, in the order in which they give most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.acceptance.public import OWN, network_name
from toolchain.devices.device import VTA
from toolchain.devices.table import kind_of
from toolchain.models.options import ModelOptions
from toolchain.models.zoo import ZOO
from toolchain.profiles import Profile
from toolchain.tasks.options import CodeOptions

_WEIGHT_BYTES = 4
_COPIES = 3  # of the weights at most: the file in the page cache, the library, packed for a device
_UNKNOWN_GFLOP = 0.01


@dataclass(frozen=True)
class NetworkChoice:
    """A network and the type that it computes in."""

    source: str
    dtype: str = "float32"

    @property
    def name(self) -> str:
        """Name that is published."""
        return network_name(self.source) + ("-int8" if self.dtype == "int8" else "")

    @property
    def gflop(self) -> float:
        """Work of one inference, about."""
        zoo = ZOO.get(network_name(self.source))
        return 2e-9 * zoo.macs if zoo else _UNKNOWN_GFLOP

    def model_options(self, device: str) -> ModelOptions:
        """Return the options by which it is loaded for a kind of device."""
        return ModelOptions(quantizer=kind_of(device).quantizers[0] if self.dtype == "int8" else "")

    def code_options(self, device: str) -> CodeOptions:
        """Return the options by which it is built for a kind of device."""
        return CodeOptions(device=device, dtype=self.dtype, rates="class")

    def fits(self, profile: Profile) -> bool:
        """Return whether its weights fit the memory that boards of a class have at least."""
        zoo = ZOO.get(network_name(self.source))
        bytes_needed = _COPIES * _WEIGHT_BYTES * zoo.parameters if zoo else 0
        return bytes_needed < profile.memory_mib * 2**20


_INT8 = NetworkChoice("zoo:resnet-18", "int8")
# Depthwise convolutions, winograd, integers, concatenations, odd windows, bottlenecks, dense layers, 3-D.
_FIRST = (
    NetworkChoice("zoo:mobilenet"),
    NetworkChoice("zoo:resnet-18"),
    _INT8,
    NetworkChoice("zoo:squeezenet_v1.1"),
    NetworkChoice("zoo:inception_v3"),
    NetworkChoice("zoo:resnet-50"),
    NetworkChoice("zoo:vgg-11"),
    NetworkChoice("zoo:resnet3d-18"),
)
_BY_SIZE = sorted(ZOO.values(), key=lambda each: each.macs)
NETWORKS: Sequence[NetworkChoice] = tuple(
    dict.fromkeys((*_FIRST, *(NetworkChoice(f"zoo:{each.name}") for each in _BY_SIZE)))
)
"""Every network of the zoo; those first from which most is learnt in little time."""


def networks_for(profile: Profile, device: str) -> list[NetworkChoice]:
    """Return the networks for a kind of device: in integers for a VTA, in floats for GPUs, both for CPUs."""
    if device == VTA:
        return [
            NetworkChoice(each.source, "int8") for each in NETWORKS if _on_vta(each) and each.fits(profile)
        ]
    integers = device == "cpu"
    return [each for each in NETWORKS if (integers or each.dtype == "float32") and each.fits(profile)]


def _on_vta(choice: NetworkChoice) -> bool:
    """Return whether a VTA computes a part of a network: chains of full convolutions, as ResNets have."""
    return choice.dtype == "float32" and (choice.name == OWN or choice.name.startswith("resnet-"))
