"""Checks that a bundle fits a board, and installs its library there."""

from __future__ import annotations

import hashlib
import io
import tarfile
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
from toolchain.measuring.execution import AS_BUILT, Execution, OnBoard
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
    execution
        What the caller chose; the board and the bundle decided the rest:
    threads, cluster
        Number of threads, and the CPU type of the cluster that runs them (`cortex-a72`).
    device
        Value for edge-rt's option `--device`.
    warnings
        Warnings for the user about these choices.
    code
        Content of the library.
    """

    on_board: OnBoard
    manifest: Manifest
    runtime: Installed
    library: str
    execution: Execution
    threads: int
    cluster: str
    device: str = CPU
    warnings: list[str] = field(default_factory=list)
    code: bytes = field(default=b"", repr=False)

    @property
    def board(self) -> Board:
        """The board with the library."""
        return self.on_board.board

    def options(self) -> list[str]:
        """Return the options of edge-rt that say how the bundle is executed."""
        needs = self.manifest.runtime
        options = ["--threads", str(self.threads), "--cluster", self.cluster]
        if self.execution.spin_us is not None:
            options += ["--spin-us", str(self.execution.spin_us)]
        if self.manifest.requires:
            options += ["--requires", ",".join(self.manifest.requires)]
        if needs.devices:
            options += ["--device", self.device]
        if not self.execution.graph:
            options += ["--graph", "off"]
        if needs.functions:
            options += ["--functions", ",".join(needs.functions)]
        if self.on_board.wait is not None:
            options += ["--wait", f"{self.on_board.wait:g}"]
        return options

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


def place(bundle: Bundle, on_board: OnBoard, execution: Execution = AS_BUILT) -> PlacedBundle:
    """Check that the bundle fits the board, and install edge-rt and the library there.

    Raises
    ------
    UsageError
        The bundle is for another board, the board has no such threads, cluster or device, or its kind of
        device has no graphs that could be switched off.
    ToolchainError
        The board cannot be reached or does not work.
    """
    manifest, board = bundle.manifest, on_board.board
    check_machine(manifest, board)
    check_kind(manifest, execution.device)
    cluster, warnings = _cluster(manifest, board.profile, execution.cluster)
    cores = board.profile.cluster(cluster).cores
    threads = cores if execution.threads is None else execution.threads
    if threads < 1:
        raise UsageError(f"--threads {threads}: not a number of threads", f"--threads {cores}")
    if not execution.graph and not kind_of(manifest.device).graph:
        raise UsageError(
            f"--graph off: {manifest.model.name} was built for {manifest.device}, which has no graphs",
            "leave the option out",
        )
    # Drivers are opened only for networks that need them.
    runtime = install(board, on_board.progress, drivers=bool(set(manifest.runtime.devices) - {CPU}))
    check_facts(manifest, board, runtime.facts)
    device = chosen_device(manifest, board, runtime.facts, execution.device)
    warnings += check_device(manifest, board, runtime.facts, device.number)
    warnings += simulation_warnings(device.word)
    library = library_for(bundle, board.profile)
    remote = f"lib/{hashlib.sha256(library).hexdigest()[:16]}.so"
    with named(board):
        stock(board.transport, remote, library, keep=_KEEP_LIBRARIES)
    return PlacedBundle(
        on_board=on_board,
        manifest=manifest,
        runtime=runtime,
        library=remote,
        execution=execution,
        threads=threads,
        cluster=cluster,
        device=device.word,
        warnings=warnings,
        code=library,
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
