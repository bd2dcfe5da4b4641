"""Who compiles: what `--builders` means."""

from __future__ import annotations

from collections.abc import Callable

from toolchain.configuration.settings import settings
from toolchain.errors import UsageError
from toolchain.tuning.builders.compiled import Compilers
from toolchain.tuning.builders.fleet import SCHEME, FleetCompilers
from toolchain.tuning.builders.host import HostCompilers

_MOST = 4096  # as of the setting `jobs`


def compilers_for(builders: str | None, notice: Callable[[str], None]) -> Compilers:
    """Return what compiles candidates.

    Parameters
    ----------
    builders
        A number of processes of this host, or `dask://HOST:PORT`; None: as many as the setting `jobs`.
    notice
        Called with what a user should know of them.

    Raises
    ------
    UsageError
        It is neither.
    MissingError
        What speaks to a fleet is not installed.
    ToolchainError
        The fleet does not answer, or is of another version.
    """
    if builders is None:
        return HostCompilers(settings().jobs)
    if builders.startswith(SCHEME):
        return FleetCompilers(builders, notice)
    if builders.isdecimal() and 1 <= int(builders) <= _MOST:
        return HostCompilers(int(builders))
    raise UsageError(
        f"--builders {builders}: neither a number of processes (1 to {_MOST}) nor a fleet's address",
        "such as --builders 4, or --builders dask://HOST:8786",
    )
