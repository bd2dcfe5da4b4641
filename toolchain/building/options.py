"""The user's options for a build. They are read without TVM, before it is known where the build runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from toolchain.arrays import Array
from toolchain.records.lookup import SHIPPED
from toolchain.tasks.options import CodeOptions

Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build.

    Attributes
    ----------
    code
        Options for the generated code.
    cluster
        CPU of one of the class's clusters; None: the first.
    threads
        Number of threads whose records are looked up; None: the cores of the cluster.
    require_tuned
        Whether to fail if a task has no record.
    sample
        Inputs for verify, by name; None: random ones.
    sample_option
        The command-line option with the sample, for error messages.
    shipped
        The file of records that the project ships; None: use none.
    check
        Whether to run the network with the sample inputs on this host before anything is written.
    pad
        Whether inputs may be padded with zeros to the next of several shapes; checked with the reference.
    """

    code: CodeOptions = field(default_factory=CodeOptions)
    cluster: str | None = None
    threads: int | None = None
    require_tuned: bool = False
    linker: str = "zig"
    format: Literal["so", "tar"] = "so"
    sample: Arrays | None = None
    sample_option: str = "--sample"
    shipped: Path | None = SHIPPED
    check: bool = False
    pad: bool = False
