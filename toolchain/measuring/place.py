"""Checks that a bundle fits a board, and installs its library there."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolchain.boards.board import Board, named
from toolchain.boards.edge_rt.install import Installed, install, stock
from toolchain.bundles.manifest import Manifest
from toolchain.bundles.read import Bundle
from toolchain.devices.device import CPU
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.linking.library import link_library
from toolchain.measuring.device import check_kind, chosen_device, simulation_warnings
from toolchain.measuring.fit import check_device, check_facts, check_machine
from toolchain.profiles import Profile

# Makes the library of a bundle that a board loads.


def library_for(bundle: Bundle, profile: Profile) -> bytes:
    """Return the bundle's library. If the bundle contains objects, link them first: boards have no linker.

    Raises
    ------
    UsageError
        The objects are not a tar of plain files.
    ToolchainError
        They cannot be linked, or the linked library fails its check.
    """
    if bundle.manifest.format == "so":
        return bundle.library
    with scratch_folder() as folder:
        objects = _objects(bundle, folder)
        linked = folder / "library.so"
        link_library(objects, linked, profile)
        return linked.read_bytes()


def _objects(bundle: Bundle, folder: Path) -> list[Path]:
    """Write the tar's files into `folder` under new names; return their paths in the tar's order."""
    objects = []
    try:
        with tarfile.open(fileobj=io.BytesIO(bundle.library), mode="r:") as archive:
            for position, member in enumerate(archive):
                # A sparse file claims any size; what is stored is never more than the archive.
                plain = member.isreg() and not member.issparse() and member.size <= len(bundle.library)
                content = archive.extractfile(member) if plain else None
                if content is None:
                    raise UsageError(
                        f"{bundle.path}: library.tar contains {member.name!r}, which is not a plain file"
                    )
                objects.append(folder / f"{position}.o")
                objects[-1].write_bytes(content.read())
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise UsageError(f"{bundle.path}: library.tar cannot be read: {error}", "build it again") from error
    if not objects:
        raise UsageError(f"{bundle.path}: library.tar is empty", "build it again")
    return objects


_KEEP_LIBRARIES = 8


@dataclass(frozen=True)
class PlacedBundle:
    """A bundle's library installed on a board, with `edge-rt` to run it.

    Attributes
    ----------
    library
        Path of the library on the board.
    threads, cluster
        Number of threads, and the CPU type of the cluster that runs them (`cortex-a72`).
    device
        Value for edge-rt's option `--device`.
    spin_us
        Microseconds that an idle thread keeps spinning; None: edge-rt's default.
    graph
        Whether the device may begin the network's kernels as one graph.
    warnings
        Warnings for the user about these choices.
    code
        Content of the library.
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
    graph: bool = True

    def describe(self) -> dict[str, Any]:
        """Return the facts about board and device that every result contains."""
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
    graph: bool = True,
    progress: Callable[[str], None] | None = None,
) -> PlacedBundle:
    """Check that the bundle fits the board, and install edge-rt and the library there.

    Parameters
    ----------
    bundle, board
        The bundle to run, and the board that runs it.
    threads
        Number of threads; default: one for each core of the cluster. On this host (`local`), whose logical
        cores may share a physical one: one for each physical core.
    cluster
        CPU type that names one of the board's clusters of cores (`cortex-a72`); default: the one that the
        bundle was built for.
    spin_us
        Microseconds that an idle thread keeps spinning; default: edge-rt's.
    device
        `KIND`, `KIND:NUMBER` or `KIND:NAME`, such as `vta:sim`; default: see `chosen_device`.
    graph
        False: the device begins the network's kernels one by one, where it would begin them as one graph.
    progress
        As of `edge_rt.install.install`.

    Raises
    ------
    UsageError
        The bundle is for another board, the board has no such `threads`, `cluster` or `device`, or its kind
        of device has no graphs that could be switched off.
    ToolchainError
        The board cannot be reached or does not work.
    """
    manifest = bundle.manifest
    check_machine(manifest, board)
    check_kind(manifest, device)
    used, warnings = _cluster(manifest, board.profile, cluster)
    cores = board.profile.cluster(used).cores
    if threads is not None and threads < 1:
        raise UsageError(f"--threads {threads}: not a number of threads", f"--threads {cores}")
    if not graph and not kind_of(manifest.device).graph:
        raise UsageError(
            f"--graph off: {manifest.model.name} was built for {manifest.device}, which has no graphs",
            "leave the option out",
        )
    # Drivers are opened only for networks that need them.
    runtime = install(board, progress, drivers=bool(set(manifest.runtime.devices) - {CPU}))
    check_facts(manifest, board, runtime.facts)
    computes = chosen_device(manifest, board, runtime.facts, device)
    warnings += check_device(manifest, board, runtime.facts, computes.number)
    warnings += simulation_warnings(computes.word)
    library = library_for(bundle, board.profile)
    remote = f"lib/{hashlib.sha256(library).hexdigest()[:16]}.so"
    with named(board):
        stock(board.transport, remote, library, keep=_KEEP_LIBRARIES)
    return PlacedBundle(
        board=board,
        manifest=manifest,
        runtime=runtime,
        library=remote,
        threads=threads or cores,
        cluster=used,
        device=computes.word,
        spin_us=spin_us,
        warnings=warnings,
        code=library,
        graph=graph,
    )


def _cluster(manifest: Manifest, profile: Profile, wanted: str | None) -> tuple[str, list[str]]:
    """Return the CPU of the cluster to run on, and a warning if it is not the bundle's."""
    has = [cluster.cpu for cluster in profile.clusters]
    default = manifest.cluster if manifest.cluster in has else has[0]
    used = profile.cluster(wanted).cpu if wanted else default
    if used == manifest.cluster:
        return used, []
    built_for = manifest.cluster
    return used, [f"built for cluster {built_for} but runs on {used}: a build for {used} may be faster"]
