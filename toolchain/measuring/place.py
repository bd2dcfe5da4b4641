"""A bundle's library on a board, checked to fit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from toolchain.boards.board import Board, named
from toolchain.boards.edge_rt.install import Installed, install
from toolchain.boards.edge_rt.stock import stock
from toolchain.bundles.manifest import Manifest
from toolchain.bundles.read import Bundle
from toolchain.devices.device import CPU
from toolchain.errors import UsageError
from toolchain.measuring.device import chosen_device, simulation_warnings
from toolchain.measuring.fit import check_facts, check_machine, device_warnings
from toolchain.measuring.library import library_for
from toolchain.profiles import Profile

_KEEP_LIBRARIES = 8


@dataclass(frozen=True)
class Placed:
    """A bundle's library on a board, with `edge-rt` to run it.

    `threads` and `cluster` are those in force; `warnings` what the user should know about them. `device` is
    what edge-rt is told to compute on.
    `spin_us` None leaves edge-rt its default. `code` is what lies at `library`.
    """

    board: Board
    manifest: Manifest
    runtime: Installed
    library: str
    threads: int
    cluster: str
    device: str = CPU
    spin_us: int | None = None
    warnings: list[str] = field(default_factory=list)
    code: bytes = field(default=b"", repr=False)

    def describe(self) -> dict[str, Any]:
        """Return what every result says about where it was made."""
        return {
            "board": self.board.name,
            "machine": self.runtime.facts.machine,
            "emulated": self.board.emulated,
            "shared_cpu": self.board.shared_cpu,
            "cluster": self.cluster,
            "device": self.manifest.device,
            "ran_on": self.device,
        }


def place(
    bundle: Bundle,
    board: Board,
    threads: int | None = None,
    cluster: str | None = None,
    spin_us: int | None = None,
    device: str | None = None,
) -> Placed:
    """Check that the bundle fits the board, and bring runtime and library there.

    Parameters
    ----------
    bundle, board
        What to run, and where.
    threads
        Default: the cores of the cluster; on `local` the physical cores.
    cluster
        A cpu of the board's clusters; default the one that the bundle was built for.
    spin_us
        Microseconds that a thread without work stays awake; default edge-rt's own.
    device
        A kind and a name, such as `vta:sim`; default as `measuring.device.chosen_device` says.

    Raises
    ------
    UsageError
        The bundle is for another board, or `threads`, `cluster` or `device` is not possible.
    ToolchainError
        The board cannot be reached or does not work.
    """
    manifest = bundle.manifest
    check_machine(manifest, board)
    used, warnings = _cluster(manifest, board.profile, cluster)
    cores = board.profile.cluster(used).cores
    if threads is not None and threads < 1:
        raise UsageError(f"--threads {threads}: not a number of threads", f"--threads {cores}")
    # A driver is opened for networks that need it, and for no others.
    runtime = install(board, drivers=bool(set(manifest.runtime.devices) - {CPU}))
    check_facts(manifest, board, runtime.facts)
    computes = chosen_device(manifest, board, runtime.facts, device)
    warnings += device_warnings(manifest, board, runtime.facts)
    warnings += simulation_warnings(computes)
    library = library_for(bundle, board.profile)
    remote = f"lib/{hashlib.sha256(library).hexdigest()[:16]}.so"
    with named(board):
        stock(board.transport, remote, library, keep=_KEEP_LIBRARIES)
    return Placed(
        board, manifest, runtime, remote, threads or cores, used, computes, spin_us, warnings, library
    )


def _cluster(manifest: Manifest, profile: Profile, wanted: str | None) -> tuple[str, list[str]]:
    """Return the cluster to run on, and a warning when it is not the bundle's."""
    has = [cluster.cpu for cluster in profile.clusters]
    default = manifest.cluster if manifest.cluster in has else has[0]
    used = profile.cluster(wanted).cpu if wanted else default
    if used == manifest.cluster:
        return used, []
    return used, [f"built for the cluster {manifest.cluster}, runs on {used}: its code suits the former"]
