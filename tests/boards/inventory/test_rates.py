"""Where the measured rates of boards are kept, and when they no longer count."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architectures.test_rates import board as document
from tests.architectures.test_rates import cluster
from tests.boards.inventory.test_register import MINE
from toolchain.architectures.rates import BoardRates
from toolchain.boards.inventory import rates as kept
from toolchain.boards.inventory import register
from toolchain.boards.inventory.lookup import find_board, local_board
from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration
from toolchain.errors import UsageError

RATES = BoardRates.model_validate(document(cluster("cortex-a72"), cluster("cortex-a53")))


@pytest.fixture
def file(tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    assert state
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / FILE_NAME
    file.write_text(MINE)
    configuration.cache_clear()
    yield file
    configuration.cache_clear()


def test_rates_of_board_are_in_settings_file(file: Path) -> None:
    assert kept.kept_rates("old") is None
    assert kept.keep_rates(find_board("old"), RATES) == file
    assert kept.kept_rates("old") == RATES
    assert file.read_text().startswith(MINE)
    entry = tomllib.loads(file.read_text())["boards"]["old"]
    assert entry["rates"]["clusters"][1]["core"] == "cortex-a53"
    assert entry["groups"] == ["desk", "all"]
    later = RATES.model_copy(update={"measured": "2026-12-24"})
    kept.keep_rates(find_board("old"), later)
    assert kept.kept_rates("old") == later
    assert find_board("old").profile.clusters[0].rates is None, "the class's own are in the profile"


def test_rates_of_host_are_cached_per_cpu(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept.kept_rates("local") is None
    found = kept.keep_rates(local_board(), RATES)
    assert kept.kept_rates("local") == RATES
    assert file.read_text() == MINE
    found.write_text(found.read_text()[:-20])
    assert kept.kept_rates("local") is None, "a file that was cut off"
    kept.keep_rates(local_board(), RATES)
    monkeypatch.setattr(kept, "_cpu_digest", lambda: "another")
    assert kept.kept_rates("local") is None


def test_refuses_rates_of_removed_board(file: Path) -> None:
    register.take_out("old")
    with pytest.raises(UsageError, match="no board 'old'"):
        register.set_rates("old", RATES)
    assert kept.kept_rates("old") is None
    assert "rates" not in file.read_text()


def test_a_table_that_is_wrong_is_refused_with_its_key(file: Path) -> None:
    kept.keep_rates(find_board("old"), RATES)
    file.write_text(file.read_text().replace('core = "cortex-a72"', "core = 72"))
    configuration.cache_clear()
    with pytest.raises(UsageError, match=r"boards\.old\.rates\.clusters\.0\.core"):
        configuration()


def test_a_profile_gets_the_rates_of_its_clusters(file: Path) -> None:
    assert file
    profile = find_board("old").profile
    found = kept.with_rates(profile, RATES)
    assert [each.rates and each.rates.core for each in found.clusters] == ["cortex-a72", "cortex-a53"]
    assert found.model_copy(update={"clusters": profile.clusters}) == profile


def test_the_digest_is_the_cpus(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"

    def digest(model: str, mhz: str, count: int) -> str:
        info.write_text(
            "".join(f"processor\t: {i}\nmodel\t: {model}\ncpu MHz\t: {mhz}\n\n" for i in range(count))
        )
        return kept._cpu_digest(info)

    assert digest("2", "2595.1", 2) == digest("2", "4100.0", 2)
    assert len({digest("2", "1", 2), digest("3", "1", 2), digest("2", "1", 4)}) == 3
