"""An image named `mali-model` whose compiler is a shell script: what it says is the test's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.images.small_image import small_image
from tests.unique import UNIQUE
from toolchain.images.catalogue import Image, image_named
from toolchain.images.engine import Engine, connect
from toolchain.testbeds.mali import store as compiler

# It answers a request by what the kernel is called.
SCRIPT = """#!/bin/sh
echo started >&2
echo "mali-model {version}"
while read -r bytes seconds; do
  source=$(dd bs=1 count="$bytes" 2>/dev/null)
  case $source in
    *"void refused("*) printf 'refused 17\\nerror: no kernel\\n' ;;
    *"void dying("*) printf 'died 40\\nLD.128 R1\\nfree(): invalid next size (x)\\n' ;;
    *"void late("*) printf 'late 0\\n' ;;
    *"void crash("*) echo "killed by a test" >&2; exit 3 ;;
    *"void silent("*) sleep 600 ;;
    *) cat /usr/local/bin/answer ;;
  esac
done
"""


@contextmanager
def compiler_image(
    folder: Path, patch: pytest.MonkeyPatch, recorded: str, version: str = ""
) -> Iterator[Engine]:
    """Let `MaliCompiler` find an image whose compiler answers with `recorded`."""
    tag = f"edge-toolchain/test-mali:{UNIQUE}"
    answer = f"ok {len(recorded.encode())}\n{recorded}"
    scripts = {
        "mali-compiler": SCRIPT.replace("{version}", version or compiler.version()),
        "answer": answer,
    }
    folder.mkdir()
    real = image_named(compiler.IMAGE)

    class Small(Image):
        @property
        def tag(self) -> str:
            return tag

    image = Small(**real.model_dump())
    with connect() as engine, small_image(engine, folder, tag, scripts=scripts):
        patch.setattr(compiler, "image_named", lambda _name: image)
        yield engine
