"""Interprets the option `--builders`."""

from __future__ import annotations

from collections.abc import Callable

from toolchain.configuration.settings import settings
from toolchain.errors import UsageError
from toolchain.tuning.builders.compiled import Compilers
from toolchain.tuning.builders.fleet import SCHEME, FleetCompilers
from toolchain.tuning.builders.host import HostCompilers

_MOST = 4096  # the same limit as for the setting `jobs`


def compilers_for(builders: str | None, notice: Callable[[str], None]) -> Compilers:
    """Start the processes, or connect to the fleet, that compile candidates.

    Parameters
    ----------
    builders
        A number of processes of this host, or `dask://HOST:PORT`; None: as many as the setting `jobs`.
    notice
        Called with warnings and news about them for the user.

    Raises
    ------
    UsageError
        `builders` is neither a number nor an address.
    MissingError
        Dask, which a fleet needs, is not installed.
    ToolchainError
        The fleet does not answer, or has another version.
    """
    if builders is None:
        return HostCompilers(settings().jobs)
    check_builders(builders)
    if builders.startswith(SCHEME):
        return FleetCompilers(builders, notice)
    return HostCompilers(int(builders))


def check_builders(builders: str) -> None:
    """Check that `builders` is a number of processes or has a fleet's scheme; connects to nothing.

    Raises
    ------
    UsageError
        It is neither.
    """
    if builders.startswith(SCHEME) or (builders.isdecimal() and 1 <= int(builders) <= _MOST):
        return
    raise UsageError(
        f"--builders {builders}: neither a number of processes (1 to {_MOST}) nor a fleet's address",
        "such as --builders 4, or --builders dask://HOST:8786",
    )
