"""Which kind of failure a device's error is: by the cause that edge-rt sends, not by its words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.rpc.peers import running_tracker
from tests.runtime.conftest import Edge
from tests.runtime.opencl_network import MOST_ITEMS, changed, large_group, plus_one, square_group
from tests.runtime.stub_drivers import FAKE, stub
from toolchain.devices.table import OPENCL
from toolchain.rpc.client import TrackerClient
from toolchain.rpc.frames import HOST
from toolchain.rpc.session import wait_for_server
from toolchain.runtime import ensure_runtime
from toolchain.tasks.candidate import Parameter, write_case
from toolchain.tasks.tuner import Result
from toolchain.tuning.boards.measure import Request, Subject, measure
from toolchain.tuning.plans.answers import PossibleTimes, failure_of


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a driver of the tests: its device takes 256 items in a work group."""
    return stub(tmp_path_factory.mktemp("fake") / "driver", source=FAKE)


def measured(folder: Path, library: bytes, count: int = 64, **environment: str | Path) -> Result:
    """Measure the function `main` of a library, which adds 1 to numbers, in a session of the real edge-rt."""
    (folder / "lib.so").write_bytes(library)
    x = np.arange(count, dtype=np.float32)
    case = write_case(folder, "case", {0: x})
    case.expect([x + 1])
    vector = Parameter((count,), "float32")
    words = [f"{name}={value}" for name, value in environment.items()]
    edge = Edge("x86_64", ("env", *words, str(ensure_runtime("x86_64").program)))
    with (
        running_tracker() as port,
        edge.serving(folder / "serving", port),
        TrackerClient(HOST, port) as tracker,
    ):
        grant = wait_for_server(tracker, "board", 30.0, 60.0)
        (result,) = measure(
            Request(
                *(grant, "board", folder / "lib.so"),
                (Subject("main", (vector, vector), 1, "opencl"),),
                *(1, "", 1, 1, 1, 60.0, PossibleTimes(1, 0.0, 60.0), 60.0, (case,)),
            )
        )
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "count", "environment", "kind", "says"),
    [
        (large_group, MOST_ITEMS, {}, "work group", "takes at most 256 along axis x of a work group"),
        (square_group, 1024, {}, "work group", "the work group is too large, the device takes at most 256"),
        (plus_one, 64, {"FAKE_GROUP": "8"}, "registers", "with which a work group has at most 8 work items"),
        (plus_one, 64, {"FAKE_FAIL": "clBuildProgram"}, "build", "does not compile, its log is empty"),
        (
            plus_one,
            64,
            {"FAKE_FAIL": "clEnqueueNDRangeKernel"},
            "runtime",
            "CL_OUT_OF_RESOURCES (-5): kernel",
        ),
        (plus_one, 64, {}, "wrong result", ""),  # it computes nothing
    ],
)
def test_a_session_sends_the_cause_of_each_failure(
    fake: Path,
    tmp_path: Path,
    library: Callable[[], bytes],
    count: int,
    environment: dict[str, str],
    kind: str,
    says: str,
) -> None:
    result = measured(tmp_path, library(), count, LD_LIBRARY_PATH=fake, **environment)
    assert result.failure == kind and says in result.message, result
    assert "cause" not in result.message, "that word is for programs"


@pytest.mark.slow
def test_what_a_driver_does_not_compile_is_told_in_its_compilers_words(tmp_path: Path) -> None:
    broken = changed(plus_one(), lambda code: code.replace(b"1.000000e+00f", b"no_such_value"))
    result = measured(tmp_path, broken)
    assert result.failure == "build" and "kernel main_kernel does not compile: " in result.message
    assert "no_such_value" in result.message


@pytest.mark.slow
def test_a_sound_function_is_timed_in_the_memory_of_the_device(tmp_path: Path) -> None:
    result = measured(tmp_path, plus_one())
    assert result.failure is None and result.mean_ms > 0, result.message


BY_TVM = "RPCError: Error caught from RPC call:\n"


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (f"{BY_TVM}[cause work-group] NPU: more than fits", "work group", "NPU: more than fits"),
        ("[cause registers] NPU: more than fits", "registers", "NPU: more than fits"),
        (f"{BY_TVM}[cause build] NPU: no such name", "build", "NPU: no such name"),
        (f"{BY_TVM}[cause of-another-version] NPU: odd", "runtime", "NPU: odd"),
        (f"{BY_TVM}NPU: the work group is too large", "runtime", "NPU: the work group is too large"),
        (f"{BY_TVM}NPU: odd\n[cause build] in a log", "runtime", "NPU: odd"),
        ("NPU: [cause build] in a name", "runtime", "NPU: [cause build] in a name"),
        ("", "runtime", "RuntimeError"),
        ("[cause build] ", "build", "RuntimeError"),
    ],
)
def test_the_kind_is_read_from_the_cause_alone(raised: str, kind: str, said: str) -> None:
    assert failure_of(RuntimeError(raised), "runtime", OPENCL) == (kind, said)


def test_a_log_is_quoted_from_its_first_error() -> None:
    log = "warning: unused\n/some/folder/x.cl:3: error: no such name\n  int y = z;\n"
    said = "OpenCL: clBuildProgram says X (-11): kernel k does not compile, its log:\n"
    assert failure_of(RuntimeError(f"{BY_TVM}[cause build] {said}{log}"), "runtime", OPENCL) == (
        "build",
        "kernel k does not compile: x.cl:3: error: no such name | int y = z;",
    )
