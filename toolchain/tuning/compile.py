"""From a function to a library for the board; runs in a worker process."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import tvm

from toolchain.errors import ToolchainError
from toolchain.foreign import first_line
from toolchain.linking.choice import linker_named
from toolchain.linking.gate import check_library
from toolchain.lowering.export import export_objects
from toolchain.lowering.vectors import target_of_code
from toolchain.profiles import Profile
from toolchain.records.record import Failure
from toolchain.tuning.candidate import Candidate


@dataclass(frozen=True)
class Compiled:
    """A library and what it was made from, or why there is none."""

    library: Path | None
    failure: Failure | None = None
    message: str = ""
    candidate: Candidate | None = None


def compile_candidate(module: str, target: str, profile: Profile, library: Path) -> Compiled:
    """Compile the module of a candidate to `library`.

    Parameters
    ----------
    module, target
        As JSON, by TVM's `save_json` and the target's own text.
    """
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        try:
            built_for = tvm.target.Target(target)
            loaded = tvm.ir.load_json(module)
            executable = tvm.compile(loaded, target=target_of_code(loaded, built_for))
            objects = export_objects(executable, Path(folder))
        except Exception as error:  # TVM raises anything from TypeError to its own kinds
            return Compiled(None, "build", first_line(error))
        try:
            linker_named("zig").link(objects, library, profile)
            check_library(library, profile, objects)
        except ToolchainError as error:
            return Compiled(None, "link", str(error))
    return Compiled(library)
