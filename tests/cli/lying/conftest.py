"""A board that lies, and the commands that ask it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.lying.asking import Ask, Lies
from tests.cli.lying.liar import Liar, tiny_bundle
from tests.cli.running import Toolchain
from toolchain.host import host_profile
from toolchain.runtime import arch_of, ensure_runtime


@pytest.fixture(scope="session")
def lies(tmp_path_factory: pytest.TempPathFactory) -> Lies:
    folder = tmp_path_factory.mktemp("liar")
    runtime = ensure_runtime(arch_of(host_profile()))
    liar = Liar(folder / "state" / "boards" / "local", runtime)
    liar.install()
    return Lies(liar, tiny_bundle(folder / "tiny.bundle"), folder / "state")


@pytest.fixture
def liar(lies: Lies, monkeypatch: pytest.MonkeyPatch) -> Liar:
    monkeypatch.setenv("TOOLCHAIN_STATE_DIR", str(lies.state))
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a third of the time, and nothing here is to survive
    lies.liar.be_honest()
    return lies.liar


@pytest.fixture
def ask(invoke: Toolchain, lies: Lies, folder: Path) -> Ask:
    return Ask(invoke, lies.bundle, folder)
