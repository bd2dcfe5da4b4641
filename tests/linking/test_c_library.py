"""What boards' C libraries offer to kernels: never more than the oldest of a class has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.architectures.table import ARCHITECTURES, LINUX
from toolchain.linking.linker import GLIBC_LIBC, GLIBC_LIBM, c_library, version_key

floors = st.integers(17, 41).map(lambda minor: f"2.{minor}")
rows = st.sampled_from(list(LINUX.values()))


@given(arch=rows, floor=floors)
def test_no_version_is_above_the_floor(arch: object, floor: str) -> None:
    libraries = c_library(arch, floor)
    assert list(libraries) == [GLIBC_LIBM, GLIBC_LIBC]
    versions = {version for symbols in libraries.values() for version in symbols.values()}
    assert all(version and version_key(version) <= version_key(floor) for version in versions)


@given(arch=rows, one=floors, other=floors)
def test_a_newer_c_library_offers_all_that_an_older_one_does(arch: object, one: str, other: str) -> None:
    older, newer = sorted((one, other), key=version_key)
    for library, symbols in c_library(arch, older).items():
        later = c_library(arch, newer)[library]
        for name, version in symbols.items():
            assert version_key(later[name] or "") >= version_key(version or ""), name


@pytest.mark.parametrize("arch", LINUX.values(), ids=list(LINUX))
def test_basic_functions_exist_in_glibc_2_27(arch: object) -> None:
    libraries = c_library(arch, "2.27")
    assert {"expf", "tanhf", "erff", "powf"} <= set(libraries[GLIBC_LIBM]) and "memcpy" in libraries[
        GLIBC_LIBC
    ]
    assert not {"puts", "malloc"} & {name for symbols in libraries.values() for name in symbols}


@pytest.mark.parametrize("floor", [None, "2.27"])
def test_androids_symbols_have_no_versions(floor: str | None) -> None:
    libraries = c_library(ARCHITECTURES["aarch64-android"], floor)
    assert set(libraries) == {"libm.so", "libc.so"}
    assert {version for symbols in libraries.values() for version in symbols.values()} == {None}
    assert "expf" in libraries["libm.so"] and "memcpy" in libraries["libc.so"]
