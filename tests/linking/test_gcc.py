"""Which gcc links for an architecture on this host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.linking.conftest import Workshop
from toolchain.errors import MissingError
from toolchain.linking import linker_named

pytestmark = pytest.mark.slow


def test_gcc_is_missing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    objects = workshop.objects()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="--linker gcc") as caught:
        linker_named("gcc").link(objects, workshop.folder / "lib.so", workshop.profile)
    assert "gcc-" in caught.value.hint
