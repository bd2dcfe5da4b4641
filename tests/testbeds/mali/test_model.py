"""The model: what it knows it does not ask again, and what it cannot say it says so."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.testbeds.mali.article import kernel
from toolchain.configuration.settings import configuration
from toolchain.devices.kernel import Kernel
from toolchain.testbeds.mali import model as model_module
from toolchain.testbeds.mali import store as store_module
from toolchain.testbeds.mali.model import MaliModel
from toolchain.testbeds.mali.statistics import KernelStatistics, read_statistics
from toolchain.testbeds.mali.store import CompiledStore, KernelError, LateError

RECORDED = Path(__file__).parent / "recorded"
BIND = kernel("bind")


class Compiler:
    """Answers what it was told to; notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.busy = threading.Lock()
        self.answer: KernelStatistics | KernelError = read_statistics((RECORDED / "bind.txt").read_text())

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_ended: object) -> None:
        self.asked.append("end")

    def compile(self, requested: Kernel) -> KernelStatistics:
        assert self.busy.acquire(blocking=False), "one answer at a time"
        self.asked.append(requested.name)
        time.sleep(0.01)
        self.busy.release()
        if isinstance(self.answer, KernelError):
            raise self.answer
        return self.answer


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    configuration.cache_clear()
    fake = Compiler()
    monkeypatch.setattr(model_module, "MaliCompiler", lambda: fake)
    return fake


def test_a_kernel_is_compiled_once(compiler: Compiler) -> None:
    with MaliModel() as model:
        (first,), (again,) = model.ask([BIND]), model.ask([BIND])
    with MaliModel() as another:
        assert another.ask([BIND]) == [first] == [again]
    assert compiler.asked == ["bind", "end"], "no compiler is started for what is known"
    assert first.estimate is not None and first.problem == ""
    assert first.to_json()["registers"] == 4 and first.to_json()["model"] == "mali-t860"


def test_concurrent_requests_compile_once(compiler: Compiler) -> None:
    kernels = [Kernel(BIND.name, BIND.source, (1, 1, size), BIND.groups) for size in range(1, 9)]
    with MaliModel() as model, ThreadPoolExecutor(4) as threads:
        modelled = list(threads.map(lambda kernel: model.ask([kernel])[0], kernels))
    assert [answer.kernel for answer in modelled] == kernels and not any(
        answer.problem for answer in modelled
    )
    assert len(compiler.asked) == 9


def test_work_group_size_is_part_of_the_key(compiler: Compiler) -> None:
    other = Kernel(BIND.name, BIND.source, (8, 8, 1), BIND.groups)
    more = Kernel(BIND.name, BIND.source, BIND.group, (1, 1, 1))
    with MaliModel() as model:
        modelled = model.ask([BIND, other, more])
    assert compiler.asked == ["bind", "bind", "end"], "how many groups there are is nothing to the compiler"
    times = [answer.estimate.ms for answer in modelled if answer.estimate]
    assert len(times) == 3 and times[2] < times[0]


def test_new_version_recompiles(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    with MaliModel() as model:
        model.ask([BIND])
    monkeypatch.setattr(store_module, "version", lambda: "mesa-99")
    with MaliModel() as model:
        model.ask([BIND])
    assert compiler.asked == ["bind", "end", "bind", "end"]


def test_compile_errors_are_cached(compiler: Compiler) -> None:
    compiler.answer = KernelError("kernel bind does not compile: why", "change it")
    for _ in range(2):
        with MaliModel() as model:
            (modelled,) = model.ask([BIND])
        assert (modelled.compiled, modelled.estimate) == (None, None)
        assert modelled.problem == "kernel bind does not compile: why (change it)"
        assert modelled.to_json()["modelled_ms"] is None
    assert compiler.asked == ["bind", "end"]


def test_timeouts_are_not_cached(compiler: Compiler) -> None:
    compiler.answer = LateError("kernel bind: not done")
    for _ in range(2):
        with MaliModel() as model:
            assert model.ask([BIND])[0].problem == "kernel bind: not done"
    assert compiler.asked == ["bind", "end", "bind", "end"]


def test_unknown_trip_counts_are_reported(compiler: Compiler) -> None:
    unknown = Kernel(BIND.name, BIND.source.replace("ci<256", "ci<n"), BIND.group, BIND.groups)
    with MaliModel() as model:
        (modelled,) = model.ask([unknown])
    assert modelled.compiled == compiler.answer and modelled.estimate is None
    assert "the trip count of a loop is unknown" in modelled.problem


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"[]", b'{"blocks": 1, "loops": []}', b"\xff"])
def test_damaged_cache_entry_is_a_miss(compiler: Compiler, content: bytes) -> None:
    with MaliModel() as model:
        model.ask([BIND])
    (file,) = CompiledStore().folder.iterdir()
    file.write_bytes(content)
    assert CompiledStore().get(BIND) is None
    with MaliModel() as model:
        assert model.ask([BIND])[0].compiled == compiler.answer
    assert CompiledStore().get(BIND) == compiler.answer
