"""`build --check`: runs the network with the sample inputs on this host, before the bundle is written."""

from __future__ import annotations

from pathlib import Path

from toolchain.boards.emulation.drivers import on_test_bed
from toolchain.boards.inventory.lookup import local_board
from toolchain.bundles.read import read_bundle
from toolchain.devices.device import device_key
from toolchain.errors import UsageError
from toolchain.images.running.environment import image_here
from toolchain.measuring.execution import AS_BUILT, Execution, OnBoard
from toolchain.measuring.fit import test_bed_of
from toolchain.measuring.verifications import remember_results
from toolchain.measuring.verify import VerifyResult, verify_bundle
from toolchain.runtime import arch_of
from toolchain.targets.build_for import BuildFor


def require_this_host(target: BuildFor) -> None:
    """Check that this host can load libraries for a target.

    For another architecture, the kernels for a device might run here with host code for this machine. But
    that library would not be the one in the bundle, so a check of it would promise too much.

    Raises
    ------
    UsageError
        The board has another architecture, or this is a container.
    """
    if image_here():
        raise UsageError(
            "--check runs the sample on this host, and this build runs in a container",
            "add --engine host; or build without --check, and `toolchain verify` the bundle",
        )
    wanted, here = arch_of(target.profile), arch_of(local_board().profile)
    if wanted == here:
        return
    name = target.board or target.profile.name
    raise UsageError(
        f"--check runs the sample on this host, which is {here}; {name} is {wanted}",
        "build without --check, and `toolchain verify` the bundle on the board or on an emulated one",
    )


def checked_here(bundle: Path) -> VerifyResult:
    """Run a bundle's sample inputs on this host and its device; compare the outputs with the expected ones.

    Of several shapes all are run, and the result of the largest is returned.

    Code for a driver that computes on a CPU, as that of `--arch emulated`, runs by that driver.

    Raises
    ------
    CheckError
        An output is wrong; the message names it, its worst element and both values there.
    UsageError
        This host lacks the device, or CPU features.
    ToolchainError
        The library crashed, or a kernel does not compile.
    """
    opened, board, execution = read_bundle(bundle), local_board(), AS_BUILT
    if bed := test_bed_of(opened.manifest):
        kind = opened.manifest.runtime.device
        board = on_test_bed(board, kind)
        execution = Execution(device=device_key(kind, str(bed.entry["name"])))
    results = []
    for shape in opened.each():
        results.append(verify_bundle(shape, OnBoard(board), execution))
        if not results[-1].passed:
            break
    *_, last = remember_results(opened, board, results)
    last.check()
    return last
