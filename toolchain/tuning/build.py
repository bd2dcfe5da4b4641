"""From a candidate to a library for the board; runs in a worker process."""

from __future__ import annotations

import tempfile
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.linking.choice import linker_named
from toolchain.linking.gate import check_library
from toolchain.profiles import Profile
from toolchain.tasks.bench import Built
from toolchain.tasks.candidate import Candidate


def build_candidate(candidate: Candidate, profile: Profile, library: Path) -> Built:
    """Compile a candidate and link it to `library`."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        try:
            objects = candidate.code.write_objects(Path(folder))
        except ToolchainError as error:
            return Built(candidate, None, "build", error.message)
        try:
            linker_named("zig").link(objects, library, profile)
            check_library(library, profile, objects)
        except ToolchainError as error:
            return Built(candidate, None, "link", str(error))
    return Built(candidate, library)
