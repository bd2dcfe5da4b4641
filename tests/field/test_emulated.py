"""The same checks by the compiler that boards' edge-rt is made with, on two architectures, in QEMU."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import pytest

from tests.field.program import FOLDER, Checks, compile_checks
from tests.field.signed import ANNA, BERT, NOW, RELEASE, TRUST, sign, statement, trust
from tests.fuzz.child import Child
from toolchain.architectures.table import LINUX
from toolchain.boards.emulation.qemu import user_modes
from toolchain.linking.zig import zig_cache_environment, zig_program
from toolchain.runtime.fingerprint import GLIBC_FLOOR, NATIVE

pytestmark = pytest.mark.slow  # zig compiles its C++ library

BOARD = sign(trust([ANNA], [ANNA, BERT], threshold=2), TRUST, ANNA)
RELEASED = sign(statement(), RELEASE, ANNA, BERT)
TRIES = 20


@pytest.fixture(scope="module", params=["aarch64", "armv7"])
def emulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checks]:
    row = next(row for row in LINUX.values() if row.edge_rt == request.param)
    program = compile_checks(
        FOLDER.with_name(f"field-{request.param}"),
        {
            "CMAKE_TOOLCHAIN_FILE": str(NATIVE / "zig.cmake"),
            "ZIG": str(zig_program()),
            "ZIG_TARGET": f"{row.zig_target}.{GLIBC_FLOOR}",
            "OPTIMIZE": "-Os",
        },
        zig_cache_environment(),
    )
    mode = user_modes()[row.name]
    argv = [mode.program, "-L", str(mode.sysroot), str(program)]
    with Child(argv, tmp_path_factory.mktemp(request.param) / "words") as child:
        yield Checks(child)


def test_a_release_is_accepted_or_refused(emulated: Checks) -> None:
    assert emulated.ask("release", RELEASED, BOARD, NOW)["app"] == "tiny"
    assert emulated.refusal("release", sign(statement(), RELEASE, ANNA), BOARD, NOW) == "threshold"
    assert emulated.refusal("release", RELEASED.replace(b"ey", b"fy", 1), BOARD, NOW) == "signature"
    assert emulated.refusal("release", RELEASED, BOARD, 2**40) == "expired"
    other = sign(trust([BERT], [BERT], version=2), TRUST, ANNA, BERT)
    assert emulated.ask("newest", BOARD, other)["version"] == 2


def test_numbers(emulated: Checks) -> None:
    assert emulated.ask("json", b"[9007199254740992,-9007199254740992]") == [2**53, -(2**53)]
    assert emulated.ask("order", "1.0.0-18446744073709551617", "1.0.0-18446744073709551616") == 1
    data = bytes(range(256)) * 999
    assert emulated.ask("sha256", data) == hashlib.sha256(data).hexdigest()


def test_a_check_takes_milliseconds(emulated: Checks) -> None:
    """A signature of the trust and two of the release: 15 ms on a busy machine, so 500 ms are wrong."""
    emulated.ask("release", RELEASED, BOARD, NOW)
    began = time.monotonic()
    for _ in range(TRIES):
        emulated.ask("release", RELEASED, BOARD, NOW)
    took = (time.monotonic() - began) / TRIES
    print(f"{took * 1e3:.2f} ms")
    assert took < 0.5
