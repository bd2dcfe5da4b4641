"""Releases of a real network, for the real edge-rt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tests.field.toy import Toy, npy
from tests.runtime.networks import dense, library
from toolchain.runtime.fingerprint import package_version

_SAMPLE = np.linspace(-1, 1, 32, dtype="float32").reshape(4, 8)
_BIAS = np.linspace(0, 1, 16, dtype="float32")


@dataclass(frozen=True)
class Real(Toy):
    """A release of the network `dense`, whose expected outputs numpy computed."""

    bias: float = 0.0
    arch: str = "x86_64"
    features: Sequence[str] = ()

    @cached_property
    def parts(self) -> dict[str, bytes]:
        """Contents by name, in the order of the subjects."""
        bias = _BIAS + np.float32(self.bias)
        samples, outputs = (_SAMPLE, bias), dense(_SAMPLE, bias)
        return {
            "manifest.json": f'{{"version": "{self.version}"}}'.encode(),
            "library.so": library("dense", self.arch),
            **{f"sample/{number}.npy": npy(each) for number, each in enumerate(samples)},
            **{f"expected/{number}.npy": npy(each) for number, each in enumerate(outputs)},
        }


def real(version: str, arch: str = "x86_64", bias: float = 0.0, **changes: object) -> Real:
    """Return a release that edge-rt installs on boards of an architecture."""
    compared = {"compare": "values", "tolerance_ppb": 10_000, "step": None, "values": None}
    return Real(
        version,
        bias=bias,
        arch=arch,
        changes={
            "requires": {
                "arch": arch,
                "glibc": "2.17",
                "tvm": package_version("apache-tvm"),
                "tvm_ffi": package_version("apache-tvm-ffi"),
                "features": [],
                "devices": [],
                "functions": [],
            },
            "run": {"device": "cpu", "threads": 1, "cluster": "generic"},
            "test": {"runs": 3, "timeout_s": 120, "outputs": [compared] * 2},
            "budget": {"latency_us": None, "memory_kib": None},
            **changes,
        },
    )
