"""Whatever is linked for a board has passed the gate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.linking.conftest import Workshop
from toolchain.errors import ToolchainError
from toolchain.linking import ZigLinker
from toolchain.linking.library import link_library
from toolchain.profiles import Profile, load_profile

pytestmark = pytest.mark.slow


def test_objects_become_a_library(workshop: Workshop) -> None:
    out = workshop.folder / "lib.so"
    link_library(workshop.objects("expf"), out, workshop.profile)
    assert out.read_bytes()[:4] == b"\x7fELF"


def test_refuses_a_library_that_the_board_could_not_load(workshop: Workshop) -> None:
    class Foreign(ZigLinker):
        """Links for the boards of the objects, whatever is asked for."""

        def link(self, objects: Sequence[Path], out: Path, profile: Profile) -> None:
            assert profile == other
            super().link(objects, out, workshop.profile)

    other = load_profile({"x86_64": "pynq"}.get(workshop.profile.arch, "x86_64"))
    with pytest.raises(ToolchainError, match=f"is not fit for board class {other.name}"):
        link_library(workshop.objects("expf"), workshop.folder / "lib.so", other, Foreign())
