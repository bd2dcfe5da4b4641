"""The table `labgrid` of a board: its place at a labgrid coordinator."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from toolchain.configuration.table import Table

_MOST_S = 14 * 86400.0


class LabgridPlace(Table):
    """Every key of `labgrid`."""

    model_config = ConfigDict(frozen=True)

    coordinator: str = Field(
        pattern=r"^[A-Za-z0-9_.\[][A-Za-z0-9_.:\[\]%-]*:[0-9]{1,5}$",
        description="`HOST:PORT` of the coordinator.",
    )
    place: str = Field(
        pattern=r"^[A-Za-z0-9_.][A-Za-z0-9_./@-]*$",
        description="The board's place there, by its whole name, acquired while a command uses the board.",
    )
    wait_s: float = Field(
        0.0,
        ge=0,
        le=_MOST_S,
        description="Seconds to wait for a place that somebody else holds; a longer `--wait` counts, too.",
    )
