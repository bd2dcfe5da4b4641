"""Compiling and keeping the runtime: real CMake and ninja, on a project that takes no time."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.waiting import until
from toolchain.configuration import settings as config
from toolchain.errors import CheckError, MissingError, ToolchainError, UsageError
from toolchain.runtime import cache, ensure_runtime, expected_fingerprint, fingerprint
from toolchain.runtime import compile as compiling
from toolchain.runtime import wheel as wheel_module

pytestmark = pytest.mark.slow

QUICK = "${CMAKE_COMMAND} -E sleep 0.2"
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(quick NONE)
add_custom_command(OUTPUT edge-rt libedge.so COMMAND {}
  COMMAND ${{CMAKE_COMMAND}} -E copy ${{CMAKE_SOURCE_DIR}}/edge_rt.h edge-rt
  COMMAND ${{CMAKE_COMMAND}} -E copy ${{CMAKE_SOURCE_DIR}}/edge_rt.h libedge.so)
add_custom_target(all-of-it ALL DEPENDS edge-rt libedge.so)
"""


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what makes the sources to compile, of which one step runs the given command."""
    folder = tmp_path / "native"
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    for module in (fingerprint, compiling, cache):
        monkeypatch.setattr(module, "NATIVE", folder)
    expected_fingerprint.cache_clear()

    def make(command: str) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / "CMakeLists.txt").write_text(PROJECT.format(command))
        (folder / "zig.cmake").touch()
        (folder / "edge_rt.h").write_text("a header\n")
        expected_fingerprint.cache_clear()
        config.configuration.cache_clear()
        return tmp_path / "cache" / "runtime"

    return make


@pytest.fixture(autouse=True)
def forget_fingerprint() -> object:
    yield
    expected_fingerprint.cache_clear()


@pytest.mark.slow
def test_runtime_is_compiled_once_and_named_by_its_sources(native: Callable[[str], Path]) -> None:
    kept = native(QUICK)
    steps: list[str] = []
    first = ensure_runtime("x86_64", progress=steps.append)
    assert steps and all("x86_64" in step for step in steps)
    assert first.program.read_text() == first.header.read_text() == "a header\n"
    assert os.access(first.program, os.X_OK) and first.library.is_file()
    steps.clear()
    assert ensure_runtime("x86_64", progress=steps.append) == first and not steps
    first.library.unlink()
    assert ensure_runtime("x86_64", progress=steps.append) == first and steps and first.library.is_file()
    other = ensure_runtime("aarch64")
    assert other.program != first.program and other.fingerprint == first.fingerprint
    first.header.with_name("more.h").write_text("")
    expected_fingerprint.cache_clear()
    assert ensure_runtime("x86_64").fingerprint != first.fingerprint
    assert len([path for path in kept.iterdir() if path.is_dir()]) == 3


def test_fingerprint_is_hexadecimal() -> None:
    assert re.fullmatch("[0-9a-f]{32}", expected_fingerprint())


def test_refuses_unknown_architectures() -> None:
    with pytest.raises(UsageError, match="riscv64"):
        ensure_runtime("riscv64")


def test_compile_error_has_the_compilers_output(native: Callable[[str], Path]) -> None:
    kept = native("${CMAKE_COMMAND} -E cat no-such-source.cc")
    with pytest.raises(ToolchainError, match=r"no-such-source\.cc"):
        ensure_runtime("x86_64")
    assert [path.suffix for path in kept.iterdir()] == [".lock"]


def test_a_missing_tool_is_named(native: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    native(QUICK)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingError, match="ninja") as caught:
        ensure_runtime("x86_64")
    assert "edge-toolchain[compile]" in caught.value.hint


WHEEL = {"edge-rt": b"a program", "libedge.so": b"a library"}


@pytest.fixture
def wheel(native: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an installed wheel with edge-rt for x86_64, whose digests are pinned."""
    native("${CMAKE_COMMAND} -E false")
    folder = tmp_path / "packages" / wheel_module.package_of("x86_64")
    folder.mkdir(parents=True)
    for name, content in WHEEL.items():
        (folder / name).write_bytes(content)
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setattr(wheel_module, "DIGESTS", tmp_path / "digests.json")
    wheel_module.write_digests({"x86_64": folder}, wheel_module.DIGESTS)
    return folder


def test_matching_wheel_replaces_compiling(wheel: Path) -> None:
    assert cache.is_compiled("x86_64") and not cache.is_compiled("aarch64")
    steps: list[str] = []
    runtime = ensure_runtime("x86_64", progress=steps.append)
    assert not steps and wheel.exists()
    assert (runtime.program.read_bytes(), runtime.library.read_bytes()) == tuple(WHEEL.values())
    assert os.access(runtime.program, os.X_OK)


def test_modified_wheel_is_not_used(wheel: Path, native: Callable[[str], Path]) -> None:
    (wheel / "libedge.so").write_bytes(b"another library")
    steps: list[str] = []
    assert not cache.is_compiled("x86_64")
    with pytest.raises(ToolchainError, match="does not compile"):
        ensure_runtime("x86_64", progress=steps.append)
    assert "edge_toolchain_rt_x86_64 is not used, since it is not this version's" in steps[0]
    native(QUICK)  # other sources: these digests are of the earlier ones
    assert ensure_runtime("x86_64", progress=steps.append).library.read_text() == "a header\n"
    assert any("no digests of it" in step for step in steps)


def test_incomplete_wheel_is_not_used(wheel: Path) -> None:
    (wheel / "edge-rt").unlink()
    assert not cache.is_compiled("x86_64")
    with pytest.raises(ToolchainError, match="does not compile"):
        ensure_runtime("x86_64")


def test_comparison_with_the_sources(
    native: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel_module, "DIGESTS", tmp_path / "digests.json")
    native(QUICK)
    runtime = ensure_runtime("x86_64")
    same = cache.compare_with_sources(runtime, lambda _: None)
    assert same.equal and same.released is None
    same.check()
    wheel_module.write_digests({"x86_64": runtime.program.parent}, wheel_module.DIGESTS)
    assert cache.compare_with_sources(runtime, lambda _: None).released == same.anew
    runtime.library.write_bytes(b"changed")
    changed = cache.compare_with_sources(runtime, lambda _: None)
    assert not changed.equal and changed.to_json()["equal"] is False
    with pytest.raises(CheckError, match=r"libedge\.so for x86_64: .* is kept here"):
        changed.check()
    wheel_module.write_digests({"x86_64": runtime.program.parent}, wheel_module.DIGESTS)
    with pytest.raises(CheckError, match=r"is kept here"):
        cache.compare_with_sources(runtime, lambda _: None).check()
    runtime.library.write_text("a header\n")
    with pytest.raises(CheckError, match=r"was released"):
        cache.compare_with_sources(runtime, lambda _: None).check()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_PACKAGES", ("no-such-package",))
    expected_fingerprint.cache_clear()
    with pytest.raises(MissingError, match="no-such-package"):
        ensure_runtime("x86_64")


def test_concurrent_processes_compile_once(native: Callable[[str], Path]) -> None:
    kept = native(QUICK)
    steps: list[str] = []
    threads = [
        threading.Thread(target=lambda: ensure_runtime("x86_64", progress=steps.append)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(steps) == len(set(steps))
    assert len([path for path in kept.iterdir() if path.is_dir()]) == 1


KILLED = """
import sys
from pathlib import Path
from toolchain.runtime import cache, compile, ensure_runtime, fingerprint
for module in (fingerprint, compile, cache):
    module.NATIVE = Path(sys.argv[1])
ensure_runtime("x86_64")
"""


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it has just ended
        return []


def alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_build_leaves_no_entry(
    native: Callable[[str], Path], tmp_path: Path, end: signal.Signals
) -> None:
    kept = native("${CMAKE_COMMAND} -E sleep 60")
    program = [sys.executable, "-c", KILLED, str(tmp_path / "native")]
    process = subprocess.Popen(program, stderr=subprocess.DEVNULL, start_new_session=True)
    left: list[psutil.Process] = []
    try:
        until(lambda: any("sleep" in words(child) for child in below(process.pid)))
        left = below(process.pid)
        process.send_signal(end)
        process.wait(timeout=60)
        if end == signal.SIGINT:
            until(lambda: not any(alive(child) for child in left))
    finally:
        process.kill()
        process.wait()
        for child in left:  # after SIGKILL nobody ends them, but they find nobody to report to
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    assert not list(kept.glob("*/edge-rt"))
    native(QUICK)
    for folder in kept.glob(".*"):  # what was left belongs to another name now
        assert end == signal.SIGKILL, folder
    begin = time.monotonic()
    assert ensure_runtime("x86_64").program.is_file()
    assert time.monotonic() - begin < 100


def test_callers_compiler_flags_are_ignored(
    native: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    native("sh ${CMAKE_SOURCE_DIR}/see.sh")
    names = ("CXXFLAGS", "LDFLAGS", "CMAKE_BUILD_TYPE")
    (fingerprint.NATIVE / "see.sh").write_text("test -z " + "".join(f"${name}" for name in names) + "\n")
    expected_fingerprint.cache_clear()
    for name in names:
        monkeypatch.setenv(name, "-march=native")
    assert ensure_runtime("x86_64").program.is_file()


def test_sources_changed_during_a_build_are_an_error(native: Callable[[str], Path]) -> None:
    kept = native("${CMAKE_COMMAND} -E touch ${CMAKE_SOURCE_DIR}/edited.h")
    with pytest.raises(ToolchainError, match="changed while"):
        ensure_runtime("x86_64")
    assert not [path for path in kept.iterdir() if path.is_dir()]
    expected_fingerprint.cache_clear()
    assert ensure_runtime("x86_64").program.is_file()
