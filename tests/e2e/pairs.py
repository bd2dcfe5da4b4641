"""Which network of the zoo is tried on which board class by `make test-all`."""

from __future__ import annotations

from toolchain.models.zoo import ZOO
from toolchain.profiles import class_names

MACHINES = {
    "x86_64": "x86_64",
    "rk3399": "aarch64",
    "raspberrypi4": "aarch64",
    "raspberrypi5": "aarch64",
    "pynq": "armv7l",
}
"""What boards of each class that runs here, itself or emulated, call their machine."""

NOTHING_RUNS_HERE = ("android-arm64", "cuda", "jetson-orin")
"""Classes that no board here has: tests/e2e/test_android.py runs libraries by other means, and the classes
with NVIDIA's GPUs are there for these GPUs; their CPUs' code is that of classes which are tried."""

EVERY_NETWORK_ON = ("x86_64", "rk3399", "pynq")
"""A class for each architecture."""

PAIRS = [(name, class_name) for name in ZOO for class_name in EVERY_NETWORK_ON] + [
    ("squeezenet_v1.1", class_name)
    for class_name in class_names()
    if class_name not in (*EVERY_NETWORK_ON, *NOTHING_RUNS_HERE)
]
"""Network and class: every network for each architecture, and one on each other class."""
