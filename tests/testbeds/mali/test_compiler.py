"""The compiler in its container: answers, refusals, deadlines, and that nothing is left of it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbeds.mali.compiler_image import compiler_image
from tests.waiting import until
from toolchain.devices.kernel import Kernel
from toolchain.errors import MissingError, ToolchainError
from toolchain.images.catalogue import Image
from toolchain.images.engine import Engine
from toolchain.testbeds.mali import store as compiler
from toolchain.testbeds.mali.statistics import read_statistics
from toolchain.testbeds.mali.store import KernelError, LateError, MaliCompiler

pytestmark = pytest.mark.slow

RECORDED = (Path(__file__).parent / "recorded" / "bind.txt").read_text()


def kernel(name: str) -> Kernel:
    return Kernel(name, f"__kernel void {name}(__global float* x) {{}}\n", (64, 1, 1), (1, 1, 1))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with (
        pytest.MonkeyPatch.context() as patch,
        compiler_image(tmp_path_factory.mktemp("image") / "of", patch, RECORDED) as engine,
    ):
        yield engine


def containers(engine: Engine) -> list[str]:
    """Return the containers of the image; those of other tests have another one."""
    image = compiler.image_named(compiler.IMAGE).tag  # type: ignore[attr-defined] # a stand-in: see `engine`
    return [container["Id"] for container in engine.api.containers(all=True, filters={"ancestor": image})]


def test_one_container_compiles_many_kernels(engine: Engine) -> None:
    with MaliCompiler() as model:
        statistics = [model.compile(kernel(name)) for name in ("one", "two")]
        assert len(containers(engine)) == 1
    assert statistics == [read_statistics(RECORDED)] * 2
    assert containers(engine) == []


def test_compile_error_does_not_affect_the_next_kernel(engine: Engine) -> None:
    with MaliCompiler(seconds=7) as model:
        with pytest.raises(KernelError, match="kernel refused does not compile: error: no kernel") as refused:
            model.compile(kernel("refused"))
        assert not isinstance(refused.value, LateError)
        with pytest.raises(
            KernelError, match=r"kernel dying crashes Mesa's compiler: free\(\): invalid next size"
        ):
            model.compile(kernel("dying"))
        with pytest.raises(LateError, match="kernel late: Mesa's compiler is not done after 7 s"):
            model.compile(kernel("late"))
        assert model.compile(kernel("one")).registers == 4
    assert containers(engine) == []


def test_dead_container_is_reported_and_replaced(engine: Engine) -> None:
    with MaliCompiler() as model:
        with pytest.raises(
            ToolchainError, match=r"container of mali-model ended: started\nkilled by a test"
        ) as raised:
            model.compile(kernel("crash"))
        assert not isinstance(raised.value, KernelError)
        assert containers(engine) == []
        assert model.compile(kernel("one")).registers == 4
    assert containers(engine) == []


def test_silent_container_times_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_ANSWER_SECONDS", 1.0)
    with MaliCompiler(seconds=1) as model, pytest.raises(ToolchainError, match="mali-model does not answer"):
        model.compile(kernel("silent"))
    assert containers(engine) == []


def test_ctrl_c_ends_the_container(engine: Engine) -> None:
    def interrupt() -> None:
        until(lambda: bool(containers(engine)))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt), MaliCompiler() as model:
        model.compile(kernel("silent"))
    assert containers(engine) == []


def test_missing_image_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        compiler, "image_named", lambda name: Image(name=f"no-{name}", description="x", folder="x")
    )
    with pytest.raises(MissingError, match="image mali-model is not here") as raised, MaliCompiler():
        pass
    assert "toolchain image build mali-model" in raised.value.hint


def test_outdated_image_is_reported(tmp_path: Path) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        compiler_image(tmp_path / "old", patch, RECORDED, version="mesa-1"),
        pytest.raises(MissingError, match=r"out of date: it has 'mali-model mesa-1'") as raised,
        MaliCompiler(),
    ):
        pass
    assert "toolchain image build mali-model" in raised.value.hint
