"""The row of the Mali-T860's model in the table of kernel models."""

from __future__ import annotations

from contextlib import AbstractContextManager

from toolchain.devices.device import device_key
from toolchain.devices.model import KernelModel, OpenModel
from toolchain.mali.gpu import T860_MP4
from toolchain.mali.model import MaliModel


def _open() -> AbstractContextManager[OpenModel]:
    return MaliModel()


MALI_T860 = KernelModel(
    name="mali-model",
    device=device_key("opencl", T860_MP4.name),
    open=_open,
    trial_s=0.7,  # 51 candidates of SqueezeNet took 38 s on a busy machine
    columns=("REGISTERS", "SPILLS:FILLS", "ARITHMETIC", "LOAD/STORE", "TEXTURE", "MODEL TIME"),
    note=(
        "times are modelled, not measured: from the instruction words that Mesa's compiler for the Mali-T860 "
        "makes for each pipe"
    ),
    unjudged={"float16": "Mesa uses half of the GPU's lanes for it"},
    half_note="the model's times for float16 are too long: Mesa uses half of the GPU's lanes for it",
)
