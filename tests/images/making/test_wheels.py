"""The lock's part for images, and its wheels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError
from toolchain.images import contents
from toolchain.images.catalogue import image_named
from toolchain.images.making import wheels

BASE = image_named("base")


def names(lock: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9._-]+)==", lock, re.MULTILINE))


def test_lock_of_images_has_runtime_requirements_only() -> None:
    lock = contents.runtime_lock()
    assert {"apache-tvm", "ziglang", "numpy", "click", "pydantic-core", "urllib3", "pycparser"} <= names(lock)
    assert not names(lock) & {"pytest", "mypy", "ruff", "hatchling", "hypothesis", "colorama", "pywin32"}
    assert lock.count("\nnumpy==") == 1 and "python_full_version" not in lock
    for entry in re.split(r"\n(?=[a-z])", lock):
        assert "--hash=sha256:" in entry, entry


def test_requirement_missing_from_the_lock_is_reported(tables: Path) -> None:
    lock = tables.parent / "requirements.lock"
    lock.write_text(re.sub(r"^ziglang==", "zagling==", lock.read_text(), flags=re.MULTILINE))
    with pytest.raises(UsageError, match=r"does not lock ziglang"):
        contents.runtime_lock()


@pytest.mark.slow
def test_refuses_a_wheel_with_another_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path))
    configuration.cache_clear()
    lock = next(e for e in re.split(r"\n(?=[a-z])", contents.runtime_lock()) if e.startswith("idna=="))
    monkeypatch.setattr(wheels, "lock_of", lambda _: re.sub(r"sha256:\w{8}", "sha256:00000000", lock))
    with pytest.raises(ToolchainError, match=r"wheels of the image base:(.|\n)*[Hh]ash"):
        wheels.ensure_wheels(BASE, print)
    assert not [path for path in (tmp_path / wheels.FOLDER).iterdir() if path.is_dir()]
    monkeypatch.setattr(wheels, "lock_of", lambda _: lock)
    (wheel,) = wheels.ensure_wheels(BASE, print).iterdir()
    assert wheel.name.startswith("idna-")
