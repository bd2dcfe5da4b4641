"""A store with only the best records in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.errors import ToolchainError
from toolchain.quantities import counted
from toolchain.records.store import RecordStore
from toolchain.records.taken import BuildVariant, taken


@dataclass(frozen=True)
class Distilled:
    """How many records `distill` kept and removed, or would keep and remove."""

    kept: int
    removed: int
    removed_failures: int


def distill(
    store: RecordStore, builds: Sequence[BuildVariant], keep: int, *, failures: bool, dry_run: bool = False
) -> Distilled:
    """Remove all but the best records for each key and build variant, and functions without records.

    Builds still choose the same records. The next tuning run may measure removed candidates again.

    Parameters
    ----------
    builds
        The variants of builds (such as with another `--winograd`), with the kinds of records that each uses.
    keep
        How many different candidates to keep for each key and build variant.
    failures
        Keep the records of failed candidates, so that they are not tried again.
    dry_run
        Change nothing.

    Raises
    ------
    ToolchainError
        The database refused and nothing was removed; or records were removed but the file could not shrink.
    """
    for _record in store.newest():  # reading every record finds the unreadable ones
        pass
    # In this order: what another process stores meanwhile is not among these, and stays.
    timed, everything = store.numbers(failures=False), store.numbers(failures=True)
    best = {each.number for each in taken(store, builds, keep)}
    keeping = best | store.unreadable.keys()  # `repair` removes those
    drop = [number for number in (timed if failures else everything) if number not in keeping]
    failed = len(set(drop) - set(timed))
    if not dry_run and drop:
        store.remove(drop)
        try:
            store.compact()
        except ToolchainError as error:
            raise ToolchainError(
                f"{counted(len(drop), 'record was', 'records were')} removed, but {store.name} is as large "
                f"as before: {error.message}",
                error.hint,
            ) from error
    return Distilled(len(everything) - len(drop), len(drop) - failed, failed)
