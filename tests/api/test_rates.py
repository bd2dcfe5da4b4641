"""`--rates`: whose speeds code is chosen by, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.boards.inventory.test_rates import RATES
from toolchain.api.rates import measure_if_unknown, with_chosen_rates, with_chosen_rates_of_all
from toolchain.boards.inventory.lookup import find_target, local_board
from toolchain.boards.inventory.rates import keep_rates
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError
from toolchain.tasks.options import CodeOptions

note = str  # nobody listens
ALONE = RATES.model_copy(update={"clusters": RATES.clusters[:1]})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    configuration.cache_clear()


def test_class_rates_are_used_without_measurement() -> None:
    keep_rates(local_board(), ALONE)
    local = find_target("local")
    assert with_chosen_rates(local, CodeOptions(rates="class"), note) == local
    for_class = find_target("rk3399")
    assert with_chosen_rates(for_class, CodeOptions(), note) == for_class
    with pytest.raises(UsageError, match="--rates board: rk3399 is a board class"):
        with_chosen_rates(for_class, CodeOptions(rates="board"), note)
    emulated = replace(local, emulated=True)
    assert with_chosen_rates(emulated, CodeOptions(), note) == emulated
    with pytest.raises(UsageError, match="emulated"):
        with_chosen_rates(emulated, CodeOptions(rates="board"), note)


@pytest.mark.parametrize("how", ["auto", "board"])
def test_measured_rates_are_used(how: str) -> None:
    keep_rates(local_board(), ALONE)
    found = with_chosen_rates(find_target("local"), CodeOptions(rates=how), note)
    assert found.rates == "board"
    assert found.profile.clusters[0].rates == ALONE.clusters[0]
    (board,) = with_chosen_rates_of_all([local_board()], CodeOptions(rates=how), note)
    assert board.build_for == found


def test_this_host_is_measured_once_where_nothing_must_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def measure(board: object, _progress: object) -> object:
        measured.append(board)
        return ALONE

    monkeypatch.setattr("toolchain.api.rates.measure_rates", measure)
    monkeypatch.setattr("toolchain.api.rates.is_compiled", lambda _arch: False)
    assert with_chosen_rates(find_target("local"), CodeOptions(), note).rates == "class"
    assert not measured
    monkeypatch.setattr("toolchain.api.rates.is_compiled", lambda _arch: True)
    assert with_chosen_rates(find_target("local"), CodeOptions(device="opencl"), note).rates == "class"
    for _ in range(2):
        assert with_chosen_rates(find_target("local"), CodeOptions(), note).rates == "board"
    assert len(measured) == 1


def test_failed_measurement_of_host_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def fail(_board: object, _progress: object) -> object:
        raise ToolchainError("board local: no memory")

    monkeypatch.setattr("toolchain.api.rates.measure_rates", fail)
    monkeypatch.setattr("toolchain.api.rates.is_compiled", lambda _arch: True)
    assert with_chosen_rates(find_target("local"), CodeOptions(), said.append).rates == "class"
    assert "no memory" in said[-1]
    with pytest.raises(ToolchainError, match="no memory"):
        with_chosen_rates(find_target("local"), CodeOptions(rates="board"), note)
    measure_if_unknown(local_board(), said.append)
    assert "toolchain board probe local" in said[-1]
