"""An image of a few MiB, made of this host's own shell and a few programs: no package, no network."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from toolchain.images.engine import IMAGE_LABEL, Engine
from toolchain.images.registry.archive import add_file, write_archive

PROGRAMS = ("cat", "dd", "env", "id", "ls", "mkdir", "sh", "sleep", "stty", "timeout")


@contextmanager
def small_image(
    engine: Engine,
    folder: Path,
    tag: str,
    labels: Mapping[str, str] | None = None,
    architecture: str = "amd64",
    scripts: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Yield the tag of an image with `PROGRAMS`; `scripts` are put into its /usr/local/bin.

    No image of another tag has its id, by which Docker finds the containers of an image.
    """
    with tarfile.open(folder / "layer", "w") as layer:
        for name, content in _files().items():
            add_file(layer, name.lstrip("/"), content, 0o755)
        for name, text in (scripts or {}).items():
            add_file(layer, f"usr/local/bin/{name}", text.encode(), 0o755)
        link = tarfile.TarInfo("lib")  # whatever Debian calls merged: libraries are found at both names
        link.type, link.linkname = tarfile.SYMTYPE, "usr/lib"
        layer.addfile(link, io.BytesIO())
    write_archive(
        folder / "image",
        folder / "layer",
        tag,
        architecture,
        ["/bin/sh"],
        {IMAGE_LABEL: "test", "test": tag, **(labels or {})},
    )
    engine.load_image(folder / "image")
    try:
        yield tag
    finally:
        engine.remove_image(tag)


def _files() -> dict[str, bytes]:
    """Return the programs and the libraries that they are linked with, by their paths."""
    files: dict[str, bytes] = {}
    for name in PROGRAMS:
        program = shutil.which(name)
        assert program is not None, name
        files[f"/bin/{name}"] = Path(program).read_bytes()
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            path = re.sub(r"^/lib/", "/usr/lib/", library)
            files[path] = Path(library).read_bytes()
    return files
