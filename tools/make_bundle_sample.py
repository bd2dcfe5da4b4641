"""Write a bundle as this checkout's toolchain does, for the tests of later ones: give it a file's name.

`tests/data/bundles/version-1.bundle` is what commit 147bb01 wrote, the last one with manifests of version 1:
small (tests/measuring/small_network.py) for class x86_64. Before a change of the manifest's version, run it
on the commit before, from the root of that checkout and with its environment:

    git worktree add ../before COMMIT && cp tools/make_bundle_sample.py ../before/tools/ && cd ../before
    PYTHONPATH=. python tools/make_bundle_sample.py version-N.bundle
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.measuring.small_network import built


def main(out: Path) -> None:
    """Build the network and keep the bundle."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(built("x86_64", Path(folder)).path, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
