"""Streams, events and graphs of the emulated driver: what waits for what, and what a capture forbids."""

from __future__ import annotations

import platform
import time
from ctypes import (
    byref,
    c_float,
    c_size_t,
    c_ulonglong,
    c_void_p,
)
from typing import Any

import numpy as np
import pytest

from tests.testbeds.cuda.child import in_child
from tests.testbeds.cuda.host import Address, Driver
from tests.testbeds.cuda.launched import (
    CAPTURE_INVALIDATED,
    CAPTURE_UNSUPPORTED,
    ILLEGAL_STATE,
    IMPLICIT,
    INVALID_VALUE,
    KERNELS,
    NOT_READY,
    UNJOINED,
    UNMATCHED,
    N,
    add,
    first,
    ones,
    stream_of,
)
from toolchain.architectures.table import LINUX
from toolchain.testbeds.cuda import compile_emulated

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def image() -> bytes:
    return compile_emulated(KERNELS, LINUX[platform.machine()])


def lazy(driver: Driver, image: bytes) -> dict[str, Any]:
    driver.begin()
    stream, at, host = stream_of(driver), ones(driver), np.zeros(N, "f4")
    function = driver.function(image, "add")
    assert add(driver, function, at, 1.0, stream) == 0
    size = c_size_t(host.nbytes)
    driver.do("cuMemcpyDtoHAsync_v2", c_void_p(host.ctypes.data), at, size, stream)
    before = float(host[0])
    not_ready = driver.call("cuStreamQuery", stream)
    driver.do("cuStreamSynchronize", stream)
    return {"before": before, "query": not_ready, "after": float(host[0])}


def test_unsynchronised_work_is_not_done(image: bytes) -> None:
    assert in_child(lazy, image).value == {"before": 0.0, "query": NOT_READY, "after": 2.0}


def ordered(driver: Driver, image: bytes, waits: bool) -> float:
    driver.begin()
    one, two, at, event = stream_of(driver), stream_of(driver), ones(driver), c_void_p()
    function = driver.function(image, "add")
    driver.do("cuEventCreate", byref(event), 2)
    add(driver, function, at, 1.0, one)
    driver.do("cuEventRecord", event, one)
    if waits:
        driver.do("cuStreamWaitEvent", two, event, 0)
    copied = driver.allocated(N * 4)
    driver.do("cuMemcpyDtoDAsync_v2", copied, at, c_size_t(N * 4), two)
    driver.do("cuStreamSynchronize", two)
    return first(driver, copied)


@pytest.mark.parametrize(("waits", "value"), [(True, 2.0), (False, 1.0)])
def test_streams_synchronise_by_events_only(image: bytes, waits: bool, value: float) -> None:
    assert in_child(ordered, image, waits).value == value


def null_stream(driver: Driver, image: bytes, flags: int) -> float:
    driver.begin()
    stream, at, function = stream_of(driver, flags), ones(driver), driver.function(image, "add")
    add(driver, function, at, 1.0, stream)
    copied = driver.allocated(N * 4)
    driver.do("cuMemcpyDtoD_v2", copied, at, c_size_t(N * 4))
    return first(driver, copied)


@pytest.mark.parametrize(("flags", "value"), [(0, 2.0), (1, 1.0)])
def test_the_null_stream_waits_for_blocking_streams(image: bytes, flags: int, value: float) -> None:
    assert in_child(null_stream, image, flags).value == value


def timed(driver: Driver, image: bytes) -> tuple[float, int, float]:
    driver.begin()
    begin, end, ms = c_void_p(), c_void_p(), c_float()
    at, function, stream = ones(driver), driver.function(image, "add"), stream_of(driver)
    driver.do("cuEventCreate", byref(begin), 0)
    driver.do("cuEventCreate", byref(end), 0)
    driver.do("cuEventRecord", begin, stream)
    for _ in range(200):
        add(driver, function, at, 1.0, stream)
    driver.do("cuEventRecord", end, stream)
    early = driver.call("cuEventElapsedTime", byref(ms), begin, end)
    started = time.perf_counter()
    driver.do("cuEventSynchronize", end)
    took = (time.perf_counter() - started) * 1e3
    driver.do("cuEventElapsedTime", byref(ms), begin, end)
    return ms.value, early, took


def test_events_take_real_times(image: bytes) -> None:
    ms, early, took = in_child(timed, image).value
    assert early == NOT_READY and 0 < ms <= took


# Graphs.


def captured(driver: Driver, image: bytes) -> dict[str, Any]:
    driver.begin()
    stream, at, by = stream_of(driver), ones(driver), c_float(1.0)
    function, graph, instance = driver.function(image, "add"), c_void_p(), c_void_p()
    driver.do("cuStreamBeginCapture_v2", stream, 0)
    assert driver.launch(function, (1,), (N,), (at, by), stream=stream) == 0
    by.value = 1000.0  # arguments are those of the capture
    nodes = c_size_t()
    driver.do("cuStreamEndCapture", stream, byref(graph))
    driver.do("cuGraphGetNodes", graph, None, byref(nodes))
    untouched = first(driver, at)
    driver.do("cuGraphInstantiateWithFlags", byref(instance), graph, c_ulonglong(0))
    driver.do("cuGraphDestroy", graph)
    for _ in range(3):
        driver.do("cuGraphLaunch", instance, stream)
    driver.do("cuStreamSynchronize", stream)
    value = first(driver, at)
    driver.do("cuGraphExecDestroy", instance)
    destroyed = driver.call("cuGraphLaunch", instance, stream)
    return {"nodes": nodes.value, "untouched": untouched, "value": value, "gone": destroyed}


def test_graph_capture_and_launch(image: bytes) -> None:
    results = in_child(captured, image).value
    assert results == {"nodes": 1, "untouched": 1.0, "value": 4.0, "gone": INVALID_VALUE}


FORBIDDEN = ("cuStreamSynchronize", "cuCtxSynchronize", "cuMemAlloc_v2", "cuModuleLoadData", "null stream")


def forbidden(driver: Driver, image: bytes, what: str, mode: int) -> tuple[int, int, int]:
    driver.begin()
    at, function, stream, graph = (
        ones(driver),
        driver.function(image, "add"),
        stream_of(driver, 0),
        c_void_p(),
    )
    driver.do("cuStreamBeginCapture_v2", stream, mode)
    calls = {
        "cuStreamSynchronize": lambda: driver.call("cuStreamSynchronize", stream),
        "cuCtxSynchronize": lambda: driver.call("cuCtxSynchronize"),
        "cuMemAlloc_v2": lambda: driver.call("cuMemAlloc_v2", byref(Address()), c_size_t(4)),
        "cuModuleLoadData": lambda: driver.call("cuModuleLoadData", byref(c_void_p()), image),
        "null stream": lambda: add(driver, function, at, 1.0),
    }
    code = calls[what]()
    later = add(driver, function, at, 1.0, stream)
    return code, later, driver.call("cuStreamEndCapture", stream, byref(graph))


@pytest.mark.parametrize("what", FORBIDDEN)
def test_forbidden_calls_end_a_capture(image: bytes, what: str) -> None:
    code = IMPLICIT if what == "null stream" else CAPTURE_UNSUPPORTED
    assert in_child(forbidden, image, what, 0).value == (code, CAPTURE_INVALIDATED, CAPTURE_INVALIDATED)


@pytest.mark.parametrize("what", ["cuMemAlloc_v2", "cuModuleLoadData"])
def test_a_relaxed_capture_allows_more(image: bytes, what: str) -> None:
    assert in_child(forbidden, image, what, 2).value == (0, 0, 0)


def states(driver: Driver, image: bytes) -> dict[str, int]:
    driver.begin()
    one, two, event, graph = stream_of(driver), stream_of(driver), c_void_p(), c_void_p()
    at, function = ones(driver), driver.function(image, "add")
    results = {
        "end without begin": driver.call("cuStreamEndCapture", one, byref(graph)),
        "null": driver.call("cuStreamBeginCapture_v2", None, 0),
    }
    driver.do("cuStreamBeginCapture_v2", one, 0)
    results["twice"] = driver.call("cuStreamBeginCapture_v2", one, 0)
    driver.do("cuEventCreate", byref(event), 2)
    driver.do("cuEventRecord", event, one)
    driver.do("cuStreamWaitEvent", two, event, 0)
    add(driver, function, at, 1.0, two)
    results["of another stream"] = driver.call("cuStreamEndCapture", two, byref(graph))
    results["unjoined"] = driver.call("cuStreamEndCapture", one, byref(graph))
    driver.do("cuStreamBeginCapture_v2", one, 0)
    driver.do("cuEventRecord", event, one)
    driver.do("cuStreamWaitEvent", two, event, 0)
    add(driver, function, at, 1.0, two)
    driver.do("cuEventRecord", event, two)
    driver.do("cuStreamWaitEvent", one, event, 0)
    results["joined"] = driver.call("cuStreamEndCapture", one, byref(graph))
    return results


def test_states_of_captures(image: bytes) -> None:
    assert in_child(states, image).value == {
        "end without begin": ILLEGAL_STATE,
        "null": CAPTURE_UNSUPPORTED,
        "twice": ILLEGAL_STATE,
        "of another stream": UNMATCHED,
        "unjoined": UNJOINED,
        "joined": 0,
    }
