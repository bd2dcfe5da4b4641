"""The contenders: arithmetic and algorithms of ours that `build` offers today, and what PyTorch offers."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.measuring.numerics import TOLERANCE
from toolchain.tasks.options import DTYPES


@dataclass(frozen=True)
class Ours:
    """A way to build a network with our code.

    Attributes
    ----------
    arithmetic
        float32, tfloat32 or float16: peers of the same arithmetic are compared with it.
    options
        Options of `toolchain build`.
    """

    name: str
    arithmetic: str
    options: tuple[str, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether the `build` of this version knows the options."""
        return "--dtype" not in self.options or self.options[self.options.index("--dtype") + 1] in DTYPES


OURS = (
    Ours("float32", "float32"),
    Ours("tfloat32", "tfloat32", ("--dtype", "tfloat32")),
    Ours("float16", "float16", ("--dtype", "float16")),
)
"""A line for each; those that `build` does not offer yet are left out."""

PEERS = ("torch", "tensorrt")
MODES = ("compile default", "compile reduce-overhead", "eager", "compile max-autotune")
FORMATS = ("channels_last", "contiguous")

TOLERANCES = {"float32": TOLERANCE["float32"], "tfloat32": TOLERANCE["tfloat32"], "float16": 5e-2}
"""Largest error that is accepted of a contender, by the rule of `verify`.

In float16, `verify` accepts 2e-2 of ours. MobileNet's logits are so alike that PyTorch's float16 errs by
3.7e-2 on a CPU, where each value between layers is rounded to float16.
"""


def peers() -> list[dict[str, str]]:
    """Return the peers, those first that were the fastest elsewhere."""
    return [
        {
            "who": "torch",
            "name": f"{mode}, {layout}",
            "mode": mode,
            "format": layout,
            "arithmetic": arithmetic,
        }
        for arithmetic in TOLERANCES
        for mode in MODES
        for layout in FORMATS
    ] + [
        {"who": "tensorrt", "name": "engine", "mode": "", "format": "", "arithmetic": arithmetic}
        for arithmetic in TOLERANCES
    ]
