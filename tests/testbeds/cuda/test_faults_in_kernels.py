"""A fault in a kernel is reported with its block and thread; it ends the launch, not the process."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import numpy as np
import pytest

from tests.testbeds.cuda.child import in_children
from tests.testbeds.cuda.host import Driver
from toolchain.architectures.table import LINUX
from toolchain.testbeds.cuda import compile_emulated

pytestmark = pytest.mark.slow

HERE = LINUX[platform.machine()]
ILLEGAL_ADDRESS, MISALIGNED, LAUNCH_FAILED = 700, 716, 719


@dataclass(frozen=True)
class Wrong:
    """Statements of a kernel on 64 floats `x`, 64 threads; the reported fault; the right form, if any.

    `{0}` is the number of the first line of the statements.
    """

    name: str
    body: str
    code: int
    said: str
    right: str = ""
    blocks: int = 1


CASES = (
    Wrong(
        "missing barrier",
        "__shared__ float s[64]; s[t] = x[t]; x[t] = s[63 - t];",
        LAUNCH_FAILED,
        "a race: it writes byte 128 of shared memory, which thread (31, 0, 0) read, and no barrier",
        "__shared__ float s[64]; s[t] = x[t]; __syncthreads(); x[t] = s[63 - t];",
    ),
    Wrong(
        "missing barrier before the next write",
        "__shared__ float s[64]; for (int i = 0; i < 2; ++i) {"
        " s[t] = x[t]; __syncthreads(); x[t] = s[63 - t]; }",
        LAUNCH_FAILED,
        "a race: it",
        "__shared__ float s[64]; for (int i = 0; i < 2; ++i) {"
        " s[t] = x[t]; __syncthreads(); x[t] = s[63 - t]; __syncthreads(); }",
    ),
    Wrong(
        "two threads write one place",
        "__shared__ float s[64]; s[t / 2] = t; __syncthreads(); x[t] = s[t / 2];",
        LAUNCH_FAILED,
        "a race: it writes byte",
    ),
    Wrong(
        "threads write parts of a word",
        "__shared__ signed char s[64]; s[t / 2] = t; __syncthreads(); x[t] = s[t / 2];",
        LAUNCH_FAILED,
        "a race: it writes byte",
        "__shared__ signed char s[64]; s[t] = t; __syncthreads(); x[t] = s[63 - t];",
    ),
    Wrong(
        "barrier in a branch",
        "if (t < 32) __syncthreads(); x[t] = 1;",
        LAUNCH_FAILED,
        "block (0, 0, 0): thread (0, 0, 0) waits at the barrier of line {0}, but thread (63, 0, 0) has ended",
        "if (blockIdx.x == 0) __syncthreads(); x[t] = 1;",
    ),
    Wrong(
        "barriers of two branches",
        "if (t < 32) {\n__syncthreads();\n} else {\n__syncthreads();\n}",
        LAUNCH_FAILED,
        "waits at the barrier of line {1}, but thread (63, 0, 0) at that of line {2}",
    ),
    Wrong(
        "index outside of shared memory",
        "__shared__ float s[64]; s[t + 1] = x[t]; __syncthreads(); x[t] = s[t];",
        ILLEGAL_ADDRESS,
        "thread (63, 0, 0): line {0}: index 64 of an array of type 'float[64]'",
    ),
    Wrong(
        "index outside of a thread's own array",
        "float own[4]; for (int i = 0; i < 4; ++i) own[i] = i; x[t] = own[t];",
        ILLEGAL_ADDRESS,
        "of an array of type 'float[4]'",
    ),
    Wrong(
        "vector that begins inside and ends outside",
        "__shared__ __align__(16) float s[62]; "
        "if (t == 63) *(float4*)(&s[0] + t / 4 * 4) = make_float4(0, 0, 0, 0); __syncthreads(); x[t] = s[0];",
        ILLEGAL_ADDRESS,
        "bytes at 0x",
    ),
    Wrong("behind device memory", "x[t + 1] = 1;", ILLEGAL_ADDRESS, "in no allocation of device memory"),
    Wrong("before device memory", "x[t - 1] = 1;", ILLEGAL_ADDRESS, "in no allocation of device memory"),
    Wrong(
        "null",
        "float* none = (float*)(long)x[0]; x[1] = none[t];",
        ILLEGAL_ADDRESS,
        "it reads 4 bytes at 0x0, which lie in no memory of a kernel",
    ),
    Wrong(
        "a vector that is not aligned",
        "float4 v = *(float4*)(x + t % 2); x[t] = v.x;",
        MISALIGNED,
        "line {0}: address 0x",
        "float4 v = *(float4*)(x + t / 4 * 4); __syncthreads(); x[t] = v.x;",
    ),
    Wrong(
        "division by zero",
        "x[t] = t / (t - t / 64);",
        LAUNCH_FAILED,
        "thread (0, 0, 0): line {0}: an integer",
    ),
    Wrong(
        "copy that nobody waited for",
        "__shared__ __align__(16) float s[64]; edge_cp_async_4(s + t, x + t); edge_cp_async_commit();"
        " __syncthreads(); x[t] = s[t];",
        0,
        "",
        "__shared__ __align__(16) float s[64]; edge_cp_async_4(s + t, x + t); edge_cp_async_commit();"
        " edge_cp_async_wait(0); __syncthreads(); x[t] = s[t];",
    ),
    Wrong(
        "copy without a barrier behind the wait",
        "__shared__ __align__(16) float s[64]; edge_cp_async_4(s + t, x + t); edge_cp_async_commit();"
        " edge_cp_async_wait(0); x[t] = s[63 - t];",
        LAUNCH_FAILED,
        "a race: it",
    ),
    Wrong(
        "copy to an address that is not aligned",
        "__shared__ __align__(16) float s[64]; edge_cp_async_16(s + t % 4, x);",
        MISALIGNED,
        "cp.async of 16 bytes needs addresses aligned to them",
    ),
    Wrong(
        "shuffle in a branch",
        "float v = t; if (t % 2) v = __shfl_xor_sync(0xffffffffu, v, 1); x[t] = v;",
        LAUNCH_FAILED,
        "waits at __shfl_xor_sync of line {0}, which lanes of its mask never reach",
        "float v = t; v = __shfl_xor_sync(0xffffffffu, v, 1); x[t] = v;",
    ),
    Wrong(
        "shuffle by a lane that its mask lacks",
        "x[t] = __shfl_sync(0xfffffffeu, t, 1);",
        LAUNCH_FAILED,
        "its lane is not in the mask of __shfl_sync",
    ),
    Wrong(
        "lanes of a warp through shared memory",
        "__shared__ float s[64]; s[t] = t; x[t] = s[t ^ 1];",
        LAUNCH_FAILED,
        "a race",
        "__shared__ float s[64]; s[t] = t; __syncwarp(); x[t] = s[t ^ 1];",
    ),
    Wrong(
        "two blocks write one place",
        "x[t] = blockIdx.x;",
        LAUNCH_FAILED,
        "a race: it writes device memory that block (",
        "if (blockIdx.x == t % 2) x[t] = 1;",
        blocks=2,
    ),
    Wrong(
        "a block reads what another writes",
        "if (t / 32 == blockIdx.x) { x[t] = 1; x[t] = x[(t + 32) % 64]; }",
        LAUNCH_FAILED,
        "a race: it reads device memory that block (",
        "if (t / 32 == blockIdx.x) x[t] = 1; if (edge_last_to_arrive(0, 2)) x[t] = x[(t + 32) % 64];",
        blocks=2,
    ),
)

RIGHT = [i for i, case in enumerate(CASES) if case.right]


def outcome(driver: Driver, image: bytes, kernel: str, blocks: int) -> tuple[int, int, np.ndarray]:
    """Return the result of the launch's wait, that of a call afterwards, and device memory."""
    x = np.arange(64, dtype="f4")
    function, memory = driver.begin().function(image, kernel), driver.put(x)
    assert driver.launch(function, (blocks,), (64,), (memory,)) == 0, (
        "a launch is told of its end, not its begin"
    )
    code = driver.call("cuCtxSynchronize")
    after = driver.call("cuCtxSynchronize")
    return code, after, x if code else driver.get(memory, x)


class Cases:
    """What came of each kernel."""

    def __init__(self) -> None:
        kernels = {f"wrong_{i}": case.body for i, case in enumerate(CASES)}
        kernels |= {f"right_{i}": case.right for i, case in enumerate(CASES) if case.right}
        self.lines, texts, line = dict[str, int](), [], 1
        for name, body in kernels.items():
            texts.append(
                f'extern "C" __global__ void {name}(float* x) {{\n  int t = (int)threadIdx.x;\n{body}\n}}\n'
            )
            self.lines[name] = line + 2
            line += texts[-1].count("\n")
        image = compile_emulated("".join(texts), HERE)
        ends = in_children(
            outcome, [(image, name, CASES[int(name.split("_")[1])].blocks) for name in kernels]
        )
        self.ends = dict(zip(kernels, ends, strict=True))


@pytest.fixture(scope="module")
def cases() -> Cases:
    return Cases()


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_kernel_faults_are_reported(cases: Cases, number: int) -> None:
    case, name = CASES[number], f"wrong_{number}"
    ended, line = cases.ends[name], cases.lines[name]
    code, after, x = ended.value
    assert (code, after) == (case.code, case.code), ended.said
    assert case.said.format(line, line + 1, line + 3) in ended.said
    if not case.said:
        assert np.isnan(x).all()


@pytest.mark.parametrize(
    "number", [i for i, case in enumerate(CASES) if case.right], ids=lambda i: CASES[i].name
)
def test_correct_kernels_pass(cases: Cases, number: int) -> None:
    ended = cases.ends[f"right_{number}"]
    code, after, x = ended.value
    assert (code, after, ended.said) == (0, 0, "") and not np.isnan(x).any()
