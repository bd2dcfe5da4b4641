"""One device that networks run on."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.boards.transport import Transport
from toolchain.profiles import Profile


@dataclass(frozen=True)
class Board:
    """One device, and how to reach it.

    Attributes
    ----------
    shared_cpu
        It computes on this host's CPU, as others may at the same time: its timings are flagged.
    tracker_key
        Under which its servers register in the lab.
    record_class
        Under which its tuning records are kept: `<class>` or `<class>+emulated`.
    """

    name: str
    profile: Profile
    emulated: bool
    shared_cpu: bool
    transport: Transport
    tracker_key: str
    record_class: str
