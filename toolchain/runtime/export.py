"""Exports the runtime's C library with its header and a README, for the user's own programs."""

from __future__ import annotations

import platform
from pathlib import Path

from toolchain.architectures.architecture import Architecture
from toolchain.files import atomic
from toolchain.profiles import Profile
from toolchain.runtime.cache import Runtime
from toolchain.runtime.fingerprint import GLIBC_FLOOR

_README = """\
libedge.so runs libraries built by the toolchain (`toolchain build`) inside a program of your own;
edge_rt.h is its C interface. It needs the C library of the system alone (glibc {glibc} or newer).

Made for: {triple}, such as boards of class {board_class}
Made from: edge-rt {fingerprint}

On the board, with the library of a bundle beside it:

    cc -O2 app.c -I. -L. -ledge -Wl,-rpath,'$ORIGIN' -o app

or on another machine, with the same options:

    {compiler} -O2 app.c -I. -L. -ledge -Wl,-rpath,'$ORIGIN' -o app

A program in five calls (each of the others is described in edge_rt.h):

    edge_library* network = edge_open("mobilenet.so", NULL);
    edge_tensor input = {{"float32", 4, shape, data, bytes}}, output;
    edge_set_input(network, 0, &input);
    edge_run(network);
    edge_output(network, 0, &output);       /* output.data lives until the next run */

When a call fails, edge_last_error() says why. Python opens it with ctypes.CDLL("./libedge.so").
"""


def export_runtime(runtime: Runtime, profile: Profile, out: Path) -> dict[str, Path]:
    """Write library, header and a README into the folder `out`, each atomically.

    Returns
    -------
    dict
        Paths of `library`, `header` and `readme`.

    Raises
    ------
    ToolchainError
        The folder cannot be written.
    """
    readme = _README.format(
        glibc=GLIBC_FLOOR,
        triple=profile.triple,
        board_class=profile.name,
        fingerprint=runtime.fingerprint,
        compiler=_compiler(profile.architecture),
    )
    contents = {
        "library": (out / runtime.library.name, runtime.library.read_bytes()),
        "header": (out / runtime.header.name, runtime.header.read_bytes()),
        "readme": (out / "README", readme.encode()),
    }
    for path, content in contents.values():
        atomic.write_bytes(path, content)
    return {name: path.absolute() for name, (path, _) in contents.items()}


def _compiler(row: Architecture) -> str:
    return "gcc" if row.uname == platform.machine() else row.gcc
