"""Every test run has folders and settings of its own; what is dear to make is shared with the user."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.building.fixtures", "tests.cli.running", "tests.records.postgres.fixtures"]

# Compiled runtimes and zig's cache take minutes to make, and are named by their content.
CACHE = os.environ.get("TOOLCHAIN_TEST_CACHE") or platformdirs.user_cache_dir("edge-toolchain")

# Before any test module imports the toolchain, whose defaults are taken from the environment.
_home = Path(tempfile.mkdtemp(prefix="edge-toolchain-tests-"))
for _name in [name for name in os.environ if name.startswith(("TOOLCHAIN_", "XDG_"))]:
    del os.environ[_name]
os.environ.update(
    TOOLCHAIN_TEST_CACHE=CACHE,  # for the workers of pytest-xdist, which see the HOME set here
    HOME=str(_home),
    TOOLCHAIN_CACHE_DIR=CACHE,
    TOOLCHAIN_DATA_DIR=str(_home / "data"),
    TOOLCHAIN_STATE_DIR=str(_home / "state"),
    TOOLCHAIN_RATES="class",  # the same code on every host, and none is measured
    EDGE_WARNINGS_ARE_ERRORS="1",  # where edge-rt is compiled: toolchain/native/field.cmake
    TOOLCHAIN_ENGINE="host",  # what images are there is no matter of most tests
    ORT_DISABLE_TELEMETRY="1",  # for tests that import onnxruntime themselves
    OPENBLAS_NUM_THREADS="1",  # workers keep the cores busy: numpy's threads would wait by spinning
)

# In the background (`nohup make test &`) both are ignored, and what a test starts would inherit that: no
# Ctrl-C would end it. What is caught here is an ordinary signal in a child. Hanging up ends no tests here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)

# What an example takes says how busy the machine is, and a change is judged by the same examples each time.
# `make check` tries fewer: --hypothesis-profile=quick. Others each time: --hypothesis-profile=drawn.
_ALLOWED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("drawn", deadline=None, suppress_health_check=_ALLOWED)
settings.register_profile("ours", settings.get_profile("drawn"), derandomize=True, database=None)
settings.register_profile("quick", settings.get_profile("ours"), max_examples=10)
settings.load_profile("ours")

_ALL_SLOW = re.compile(r"^pytestmark = \[?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_configure() -> None:
    """Let what a test builds be compiled in its own process: pytest-xdist's workers keep the cores busy."""
    os.environ["TOOLCHAIN_JOBS"] = "1"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of slow tests alone when no slow test is asked for: to read them takes seconds."""
    wanted = "not slow" not in config.option.markexpr or collection_path.suffix != ".py"
    return None if wanted or not _ALL_SLOW.search(collection_path.read_text(encoding="utf-8")) else True


def pytest_unconfigure() -> None:
    """Remove the home folder of this process; pytest-xdist's workers have one each."""
    shutil.rmtree(_home, ignore_errors=True)


@pytest.fixture(autouse=True)
def fresh_configuration() -> Iterator[None]:
    """Let no test see the configuration that another one read."""
    from toolchain.configuration.settings import configuration

    configuration.cache_clear()
    yield
    configuration.cache_clear()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a state folder of the test's own: no boards, no lab."""
    folder = tmp_path / "state"
    monkeypatch.setenv("TOOLCHAIN_STATE_DIR", str(folder))
    return folder
