"""`records_url`: the commands on a team's database."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.cli.running import Toolchain
from tests.records.postgres.server import PASSWORD
from tests.records.samples import put
from toolchain.configuration.settings import configuration
from toolchain.records.store import user_store

pytestmark = pytest.mark.slow


@pytest.fixture
def url(postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return the address of the database that is configured."""
    monkeypatch.setenv("TOOLCHAIN_RECORDS_URL", postgres_url)
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(tmp_path / "data"))
    configuration.cache_clear()
    return postgres_url


@pytest.mark.usefixtures("url")
def test_records_of_a_team(invoke: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with user_store() as store:
        put(store, 2.0)
        put(store, 1.0)
    assert [record["best_ms"] for record in invoke("records", "list", "--json").document] == [1.0, 2.0]
    assert invoke("records", "export", "team.jsonl").code == 0
    distilled = invoke("records", "distill", "--json").document
    assert (distilled["kept"], distilled["removed"]) == (1, 1) and distilled["store"].startswith(
        "postgresql:"
    )
    imported = invoke("records", "import", "team.jsonl")
    assert imported.out.startswith("2 records, 1 of them new, are in postgresql://team@127.0.0.1:")
    assert PASSWORD not in imported.out and quote(PASSWORD, safe="") not in imported.out
    assert not (tmp_path / "data").exists(), "the file of one's own is not touched"
    monkeypatch.setenv("TOOLCHAIN_RECORDS_URL", "")
    configuration.cache_clear()
    assert invoke("records", "list", "--json").document == []


def test_an_address_that_is_none_is_refused_without_its_password(
    invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in ("mysql://u:secret@h/r", "postgresql://u:a/secret@h/r"):
        monkeypatch.setenv("TOOLCHAIN_RECORDS_URL", url)
        configuration.cache_clear()
        ran = invoke("records", "list", "-v")
        assert ran.code == 2 and ran.says("records_url") and "secret" not in ran.err


@pytest.mark.usefixtures("url")
def test_without_the_driver_it_is_said_what_to_install(folder: Path) -> None:
    program = "import sys; sys.modules['psycopg'] = None; from toolchain.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, "records", "list"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3 and "pip install 'edge-toolchain[postgres]'" in ran.stderr
    assert PASSWORD not in ran.stderr


def test_without_a_database_its_driver_is_not_imported(folder: Path) -> None:
    program = (
        "import sys; from toolchain.cli import root, root; root.run(root.root, ['records', 'list']);"
        "print(*{'psycopg', 'numpy', 'tvm', 'onnx'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "")
