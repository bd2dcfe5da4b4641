"""What no board computes so fast is not believed; what an honest one says always is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.architectures.least_time import LEAST_MS, ROOM, bounding_flops, least_ms
from toolchain.devices.table import peak_flops

WORD = st.text(max_size=30)
X86 = {"triple": "x86_64-unknown-linux-gnu", "cpu": "x86-64-v4", "level": "x86-64-v4+avx512vnni"}
A72 = {"triple": "aarch64-unknown-linux-gnu", "cpu": "cortex-a72", "level": "neon"}

# What such hardware was measured at, or could be at best: operations as the definition counts them, seconds.
HONEST = [
    # The FMA peak of a Sapphire Rapids core, by winograd with a fourth of the products.
    pytest.param(4 * 249e9, 1, X86, "", id="winograd at the peak"),
    # 64 products of bytes a cycle and unit, at 6.2 GHz.
    pytest.param(2 * 2 * 64 * 6.2e9, 1, X86, "", id="bytes at the peak"),
    pytest.param(5 * 2 * 8 * 2.4e9, 2, A72, "", id="winograd on an overclocked A72"),
    # A class that is named wrongly: 16 operations a cycle where 8 are known of.
    pytest.param(5 * 4 * 16 * 2.4e9, 4, A72, "", id="a Raspberry Pi 5 called a 4"),
    pytest.param(97e9, 1, A72, "opencl:mali-t860", id="what a model says of a Mali"),
    pytest.param(5 * 67e12, 1, X86, "opencl:nvidia-h200", id="winograd on the fastest GPU here"),
    pytest.param(2 * 256 * 100e6, 2, A72, "vta:1x16x16", id="a Pynq's VTA, never idle"),
]


@pytest.mark.parametrize(("rate", "threads", "what", "device"), HONEST)
@pytest.mark.parametrize("flops", [1e6, 1e9, 1e12])
def test_an_honest_board_is_believed(
    flops: float, rate: float, threads: int, what: dict[str, str], device: str
) -> None:
    ms = flops / rate * 1e3
    assert least_ms(flops, **what, threads=threads, peak=peak_flops(device)) * 2 <= max(ms, 2 * LEAST_MS)


def test_a_board_that_was_measured_has_a_closer_bound() -> None:
    slow = {"triple": "armv7a-unknown-linux-gnueabihf", "cpu": "cortex-a9", "level": "neon"}
    bound, closer = least_ms(1e9, **slow), least_ms(1e9, **slow, measured=2.2e9)
    assert closer == pytest.approx(bound * 8 * 3.2 / (2 * 2.2))
    assert least_ms(1e9, **slow, measured=1e15) == bound, "it says more than such cores can reach"
    honest = 1e9 / (5 * 4 * 2.2e9) * 1e3  # winograd with a fifth of the products, four times as fast in bytes
    assert closer * 1.5 < honest
    assert least_ms(1e9, **slow, threads=2, measured=2.2e9) == closer / 2
    assert least_ms(1e9, **X86, peak=1e12, measured=1.0) == least_ms(1e9, **X86, peak=1e12), "a device's"


def test_what_cannot_be_is_not() -> None:
    mobilenet = 1.1e9
    assert 0.005 < least_ms(mobilenet, **X86, threads=2) < 0.05, "5 ms there"
    assert 0.1 < least_ms(mobilenet, **A72, threads=2) < 1, "60 ms there"
    assert least_ms(mobilenet, **{**A72, "cpu": "generic"}, threads=2) < least_ms(mobilenet, **A72, threads=2)
    assert least_ms(mobilenet, **X86) == 2 * least_ms(mobilenet, **X86, threads=2)
    narrow = {**X86, "level": "x86-64-v3"}
    assert least_ms(mobilenet, **narrow) == 2 * least_ms(mobilenet, **X86)
    assert least_ms(0, **X86) == LEAST_MS, "of a copy nothing but a call is known"
    assert ROOM > 5 * 4 * 2


@pytest.mark.slow
@given(st.floats(0, 1e30), st.integers(1, 1024), WORD, WORD, WORD)
def test_every_board_has_a_least_time(flops: float, threads: int, cpu: str, level: str, device: str) -> None:
    for triple in (X86["triple"], A72["triple"], "armv7a-unknown-linux-gnueabihf", "riscv64-x-y-z"):
        what = {"triple": triple, "cpu": cpu, "level": level, "peak": peak_flops(device)}
        found = least_ms(flops, **what, threads=threads)
        assert LEAST_MS <= found <= least_ms(2 * flops, **what, threads=threads)


def test_zeros_between_spread_values_are_no_work() -> None:
    assert bounding_flops(100, ["fused_conv2d_add_relu", "fused_conv2d_transpose_add"]) == 0
    assert bounding_flops(100, ["fused_conv2d_add_relu", "fused_transpose_add"]) == 100
    assert bounding_flops(100, []) == 100
