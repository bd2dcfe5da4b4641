"""Functions are compiled in several processes, none of which is left behind."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest
import tvm

from tests.lowering.kernels.test_pickling import computed, function
from toolchain.errors import ToolchainError
from toolchain.lowering.kernels import compilers as compilers_module
from toolchain.lowering.kernels.compilers import FunctionCompilers
from toolchain.lowering.kernels.pickling import pickled
from toolchain.lowering.kernels.recipe import Scheduled
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow

RECIPES = [pickled(computed("x", float(factor))) for factor in range(6)]


@pytest.fixture
def target() -> str:
    return str(target_for(load_profile("x86_64")).target)


BEFORE: set[psutil.Process] = set()


@pytest.fixture(autouse=True)
def before() -> None:
    """Remember the processes that earlier tests of this run left to their own end."""
    BEFORE.clear()
    BEFORE.update(psutil.Process().children(recursive=True))


def children() -> list[psutil.Process]:
    return [each for each in psutil.Process().children(recursive=True) if each not in BEFORE]


def test_processes_and_none_give_the_same_objects(target: str) -> None:
    found = []
    for jobs in (1, 3):
        with FunctionCompilers(jobs, target) as compilers:
            for number, recipe in enumerate(RECIPES):
                compilers.submit(f"kernel{number}", recipe)
            assert len(compilers._threads) == jobs - 1
            found.append(dict(compilers.results()))
        assert children() == []
    assert found[0] == found[1]
    assert len(found[0]) == len(RECIPES)
    assert all(data[:4] == b"\x7fELF" for data in found[0].values())


def test_a_few_functions_are_not_worth_a_process(target: str) -> None:
    with FunctionCompilers(4, target) as compilers:
        compilers.submit("kernel", RECIPES[0])
        assert dict(compilers.results()).keys() == {"kernel"}
        assert children() == []


def _killed_elsewhere(_recipe: bytes, parent: str, _symbol: str) -> bytes:
    if os.getpid() == int(parent):
        time.sleep(0.1)
    else:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where memory is short
    return b""


def test_a_process_that_dies_is_an_error_and_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers_module, "compile_kernel", _killed_elsewhere)
    expected = pytest.raises(ToolchainError, match=r"compiling a function failed: .*-9.*TOOLCHAIN_JOBS=1")
    with expected, FunctionCompilers(3, str(os.getpid())) as compilers:
        for number in range(1000):
            compilers.submit(f"kernel{number}", b"")
        list(compilers.results())
    assert children() == []


def test_what_cannot_be_compiled_is_an_error_here_and_there(target: str) -> None:
    bad = function().with_body(tvm.tirx.Evaluate(tvm.tirx.call_intrin("int32", "tirx.mma_fill", 1)))
    for jobs in (1, 2):
        expected = pytest.raises(ToolchainError, match="TVM cannot compile ")
        with expected, FunctionCompilers(jobs, target) as compilers:
            for number in range(4):
                compilers.submit(f"kernel{number}", pickled(Scheduled(bad)))
            list(compilers.results())
        assert children() == []


def test_an_interrupt_leaves_no_process(target: str) -> None:
    with pytest.raises(KeyboardInterrupt), FunctionCompilers(3, target) as compilers:
        for number, recipe in enumerate(RECIPES * 4):
            compilers.submit(f"kernel{number}", recipe)
        began = time.monotonic()
        while not children():  # each is started by a thread
            assert time.monotonic() < began + 60
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)
    assert children() == []
