"""A process that signs a release, or a trust that waits for signatures, once by each key that is named."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tests.releases.made import signer
from toolchain.releases.signature import add_signatures
from toolchain.releases.signed_release import open_release
from toolchain.releases.succession import read_pending


def sign_often(file: Path, names: Iterable[str]) -> None:
    """Read the file anew before each signature, as commands do; a bundle's name means its release."""
    for name in names:
        if file.suffix == ".bundle":
            add_signatures(open_release(file), [signer(name)])
        else:
            pending = read_pending(file)
            assert pending is not None
            pending.signed_by([signer(name)]).settle()


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sign_often(Path(sys.argv[1]), sys.argv[2:])
