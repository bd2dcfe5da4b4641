"""`toolchain image list`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from toolchain.cli.output import emit, output_options, table

_UNITS = (("d", 86400), ("h", 3600), ("min", 60))


@click.command("list")
@output_options
def command() -> None:
    """List the images: tag, size, age, and whether their sources have changed since."""
    from toolchain.images.engine import connect
    from toolchain.images.listing import states

    with connect() as engine:
        found = states(engine)

    def tell() -> None:
        rows = [
            (s.name, s.tag, "-" if s.size_mib is None else f"{s.size_mib:.0f} MiB", _age(s.created), s.word)
            for s in found
        ]
        table(["NAME", "TAG", "SIZE", "AGE", "STATE"], rows)

    emit([s.to_json() for s in found], tell)


def _age(created: datetime | None) -> str:
    if created is None:
        return "-"
    seconds = max(0.0, (datetime.now(UTC) - created).total_seconds())
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
