"""A store with only the best records in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.errors import ToolchainError
from toolchain.records.store import RecordStore
from toolchain.records.taken import Build, taken


@dataclass(frozen=True)
class Distilled:
    """What `distill` did, or would do: how many records were kept, and removed."""

    kept: int
    removed: int
    removed_failures: int


def distill(
    store: RecordStore, builds: Sequence[Build], keep: int, *, failures: bool, dry_run: bool = False
) -> Distilled:
    """Remove all but the best records of each key and sort of build, and what they are of.

    Builds take what they took before. What was removed may be measured again by the next run.

    Parameters
    ----------
    builds
        The sorts of builds there are, with the kinds of records that they take.
    keep
        How many different candidates of each.
    failures
        Keep the records of candidates that failed: they are not tried again.
    dry_run
        Change nothing.

    Raises
    ------
    ToolchainError
        The database refuses, and nothing was removed; or it was, and the file stayed as large.
    """
    for _record in store.newest():  # each is read, so that those are known that cannot be
        pass
    best = {each.number for each in taken(store, builds, keep)}
    timed, everything = store.numbers(failures=False), store.numbers(failures=True)
    keeping = best | store.unreadable.keys()  # `repair` removes those
    drop = [number for number in (timed if failures else everything) if number not in keeping]
    failed = 0 if failures else len(everything) - len(timed)
    if not dry_run and drop:
        store.remove(drop)
        try:
            store.compact()
        except ToolchainError as error:
            raise ToolchainError(
                f"{len(drop)} records were removed, but {store.name} is as large as before: {error.message}",
                error.hint,
            ) from error
    return Distilled(len(everything) - len(drop), len(drop) - failed, failed)
