"""The ways of making code there are: the one place that names them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolchain.backends.packed import kinds as packed
from toolchain.backends.tensorir import kinds as tensorir
from toolchain.errors import UsageError
from toolchain.profiles import Profile
from toolchain.records.store import Usable, anything
from toolchain.tasks.backend import Backend
from toolchain.tasks.options import CodeOptions


@dataclass(frozen=True)
class Offer:
    """A way of making code, before it is known what for.

    Attributes
    ----------
    devices
        Kinds of devices that it makes code for.
    layouts
        Values of `--layout` that mean it.
    make
        Returns it for a board class and options; raises UsageError where the options do not fit.
    builds
        Kinds of records that its builds take, and which of those; one pair for each sort of build.
    """

    devices: tuple[str, ...]
    layouts: tuple[str, ...]
    make: Callable[[Profile, CodeOptions], Backend]
    builds: tuple[tuple[tuple[str, ...], Usable], ...]


def _packed(profile: Profile, options: CodeOptions) -> Backend:
    from toolchain.backends.packed.backend import Packed

    return Packed(profile, options)


def _tensorir(profile: Profile, options: CodeOptions) -> Backend:
    from toolchain.backends.tensorir.backend import TensorIR  # imports MetaSchedule

    return TensorIR(profile, options)


BACKENDS = [
    Offer(("cpu",), ("packed",), _packed, tuple((packed.KINDS, packed.usable(on)) for on in (True, False))),
    Offer(("cpu",), ("NCHW", "NHWC"), _tensorir, ((tensorir.KINDS, anything),)),
]
"""`--layout auto` takes the first that a device has."""


def backend_for(profile: Profile, options: CodeOptions) -> Backend:
    """Return what makes the code that options ask for.

    Raises
    ------
    UsageError
        Boards of the class have no such device, or nothing makes such code for it.
    """
    profile.device(options.device)
    offers = [offer for offer in BACKENDS if options.device in offer.devices]
    for offer in offers:
        if options.layout in ("auto", *offer.layouts):
            return offer.make(profile, options)
    known = ", ".join(["auto", *(layout for offer in offers for layout in offer.layouts)])
    raise UsageError(
        f"--layout {options.layout}: there is no such code for --device {options.device}",
        f"use --layout {known}",
    )
