"""Linkers by the names that users give."""

from __future__ import annotations

import pytest

from toolchain.errors import UsageError
from toolchain.linking import ZigLinker, linker_named
from toolchain.linking.table import NdkLinker


def test_linkers_by_name() -> None:
    assert isinstance(linker_named("zig"), ZigLinker)
    assert isinstance(linker_named("ndk"), NdkLinker)
    with pytest.raises(UsageError, match="--linker mold") as caught:
        linker_named("mold")
    assert "zig, gcc, ndk" in caught.value.hint
