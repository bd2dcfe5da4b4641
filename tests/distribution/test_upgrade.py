"""From this version to a later one and back: records, boards and caches are kept and read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.distribution.kept import KEPT
from tools.distribution.building import Packages
from tools.distribution.checking import write_network
from tools.distribution.fresh import Fresh, fresh_environment

pytestmark = pytest.mark.slow  # builds packages, and a network

CACHE = Path(os.environ["TOOLCHAIN_CACHE_DIR"])
BOARD = '# mine\n[boards.bench-pc]\nclass = "local"\nhost = "local"\n'


class User:
    """Somebody with a home, a project and an environment in which versions come and go."""

    def __init__(self, fresh: Fresh, folder: Path) -> None:
        self.fresh, self.folder = fresh, folder
        (folder / "toolchain.toml").write_text(BOARD)
        self.network = write_network(folder / "tiny.onnx")
        # A cache of the user's own, with the compiled programs, which take minutes to make.
        self.cache = fresh.home / ".cache" / "edge-toolchain"
        self.cache.mkdir(parents=True)
        for name in ("runtime", "zig"):
            if (CACHE / name).exists():
                (self.cache / name).symlink_to(CACHE / name)

    def json(self, *arguments: object) -> Any:
        done = self.fresh.run(*arguments, "--json", cwd=self.folder, more={"TOOLCHAIN_JOBS": "1"})
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def sees(self) -> dict[str, Any]:
        """Return what must be the same in every version."""
        return {
            "records": self.json("records", "list"),
            "boards": [each for each in self.json("board", "list") if each["name"] == "bench-pc"],
            "release": self.json(
                "release", "verify", KEPT / "small.bundle", "--trust", KEPT / "release-key.pub"
            ),
            "toml": (self.folder / "toolchain.toml").read_text(),
        }

    def objects(self) -> dict[str, int]:
        found = (path for path in (self.cache / "objects").rglob("*") if path.is_file())
        return {str(path.relative_to(self.cache)): path.stat().st_ino for path in found}


def test_to_a_later_version_and_back(packages: Packages, later: Path, tmp_path: Path) -> None:
    fresh = fresh_environment(tmp_path / "fresh")
    fresh.install(packages.wheel)
    user = User(fresh, tmp_path)
    user.json("records", "import", KEPT / "records.jsonl")
    first = user.json("build", user.network, "--board", "rk3399", "-o", "first", "--engine", "host")
    before, objects = user.sees(), user.objects()
    assert before["records"] and before["boards"] and objects

    for wheel, version in ((later, "0.2.0"), (packages.wheel, "0.1.0")):
        fresh.install(wheel)
        assert fresh.run("--version").stdout == f"toolchain {version}\n"
        assert user.sees() == before
        built = user.json("build", user.network, "--board", "rk3399", "-o", version, "--engine", "host")
        assert user.objects() == objects, "no function was compiled again"
        assert Path(built["library"]).read_bytes() == Path(first["library"]).read_bytes()

    verified = user.json("verify", KEPT / "small.bundle", "--board", "bench-pc")
    assert verified["passed"] is True
