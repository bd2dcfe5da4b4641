"""The CUDA compilers of the image `cuda` fit TVM's CUDA plugin, and each other."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from elftools.elf.elffile import ELFFile

from toolchain.images.catalogue import image_named


def plugin() -> Path:
    spec = importlib.util.find_spec("tvm")
    assert spec and spec.origin
    return Path(spec.origin).parent / "lib" / "libtvm_runtime_cuda.so"


def locked() -> dict[str, str]:
    text = (image_named("cuda").path / "requirements.lock").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE))


def test_cuda_compilers_match_tvms_plugin() -> None:
    with plugin().open("rb") as file:
        needed = [tag.needed for tag in ELFFile(file).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    (runtime,) = (name for name in needed if name.startswith("libcudart.so."))
    major = runtime.removeprefix("libcudart.so.")
    assert {version.split(".")[0] for name, version in locked().items() if name != "cuda-pathfinder"} == {
        major
    }


def test_cuda_compilers_are_of_one_release() -> None:
    versions = {".".join(version.split(".")[:2]) for name, version in locked().items() if "nvidia" in name}
    assert len(versions) == 1


def test_the_lock_names_no_index() -> None:
    text = (image_named("cuda").path / "requirements.lock").read_text()
    assert "://" not in text and "index" not in text
    assert len(re.findall("^[a-z]", text, re.MULTILINE)) == len(locked())
