"""Runs a program that is terminated when the thread that started it ends, for whatever reason.

This file is run as a script, before anything of ours is imported: it asks the kernel for a SIGTERM
at the parent's end, and becomes the program. Nothing but the kernel can do that for a parent that
is killed.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def tied(argv: list[str]) -> list[str]:
    """Return the command line that runs `argv` tied to the calling thread."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *argv]


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() == int(sys.argv[1]):  # else it has ended already
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - an argument list, no shell
