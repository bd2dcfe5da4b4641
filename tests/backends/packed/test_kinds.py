"""What a confirmed record with winograd and one without mean for both kinds of builds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.records.samples import KEY, PROVENANCE, put
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.backends.packed.kinds import CPU, KINDS, WINOGRAD, allowed, excluded, usable, without_winograd
from toolchain.records.lookup import lookup
from toolchain.records.record import Record
from toolchain.records.store import RecordStore

DIRECT, FAST = DirectChoice().to_json(), WinogradChoice(tile=(4, 4)).to_json()
WITHOUT = replace(PROVENANCE, excluded=WINOGRAD)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with RecordStore(tmp_path / "records.sqlite") as opened:
        yield opened


def found(store: RecordStore, *, winograd: bool) -> Record | None:
    hit = lookup(store, KEY, KINDS, shipped=None, usable=usable(winograd))
    return hit.record if hit else None


def test_each_build_takes_what_was_confirmed_among_its_own(store: RecordStore) -> None:
    whole = put(store, 1.0, kind=CPU, payload=FAST, confirmed=True)
    own = put(store, 2.0, kind=CPU, payload=DIRECT, confirmed=True, provenance=WITHOUT)
    assert found(store, winograd=True) == whole
    assert found(store, winograd=False) == own


def test_what_won_over_winograd_is_taken_by_both(store: RecordStore) -> None:
    won = put(store, 1.0, kind=CPU, payload=DIRECT, confirmed=True)
    assert found(store, winograd=True) == found(store, winograd=False) == won


def test_what_was_never_compared_with_winograd_decides_only_without(store: RecordStore) -> None:
    own = put(store, 1.0, kind=CPU, payload=DIRECT, confirmed=True, provenance=WITHOUT)
    assert found(store, winograd=True) is None
    assert found(store, winograd=False) == own


def test_without_winograd_the_best_direct_trial_of_a_whole_run_is_taken(store: RecordStore) -> None:
    put(store, 3.0, kind=CPU, payload=DIRECT, digest="slower")
    trial = put(store, 2.0, kind=CPU, payload=DIRECT)
    put(store, 1.0, kind=CPU, payload=FAST, confirmed=True)
    assert found(store, winograd=False) == trial


def test_a_run_measures_again_what_another_confirmed(store: RecordStore) -> None:
    own = put(store, 1.0, kind=CPU, payload=DIRECT, confirmed=True, provenance=WITHOUT)
    put(store, 2.0, kind=CPU, payload=FAST)
    assert store.best(KEY, KINDS, allowed(winograd=True)) == own
    assert store.best(KEY, KINDS, allowed(winograd=False)) == own


@pytest.mark.parametrize("payload", ["", "{", "[]", "3", "[" * 5000])
def test_a_payload_that_cannot_be_read_is_left_to_the_build_which_says_so(
    store: RecordStore, payload: str
) -> None:
    assert without_winograd(put(store, 1.0, kind=CPU, payload=payload))


def test_what_a_run_leaves_out() -> None:
    assert (excluded(winograd=True), excluded(winograd=False)) == ("", WINOGRAD)
