"""Measures how large an installation is, part by part, and which parts `toolchain demo` loads.

    python -m tools.distribution.sizes [--write docs/howto/install.md]

Sizes are those of installed files, without what Python compiles of them: whether pip does that is the user's
choice. `toolchain demo --board local` runs in a fresh environment, where every
process notes which modules it imports.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from benchmarks.latency.document import write
from toolchain.configuration.settings import cache_dir
from tools.distribution import tree
from tools.distribution.building import build_wheel
from tools.distribution.fresh import Fresh, fresh_environment
from tools.distribution.locked import Locked, asked_for, locked, normal, with_needs

_NOTE_IMPORTS = """
import sys
seen = set()
def note(event, arguments):
    if event == "import" and (name := arguments[0].partition(".")[0]) not in seen:
        seen.add(name)
        with open({log!r}, "a") as file:
            file.write(name + "\\n")
sys.addaudithook(note)
"""
_PROGRAMS = {"ziglang"}  # it is run, not imported
_SMALL_MIB = 3.0


def main() -> int:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="fill the tables of a Markdown file")
    page = parser.parse_args().write
    text = tables(loaded_by_demo())
    if page is None:
        print(text)
        return 0
    write(page, {"sizes": text}, "tools/distribution/sizes.py")
    return 0


def mib(name: str) -> float:
    """Return the size of an installed distribution's files, without compiled modules."""
    files = metadata.distribution(name).files or []
    paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 2**20


def tables(loaded: set[str]) -> str:
    """Return the tables of parts that everybody has, and of extras."""
    entries = [each for each in locked() if _is_installed(each.name)]
    asked = asked_for()
    asked.pop("dev")
    base = with_needs(asked.pop(""), entries)
    own, sizes = asked_for()[""], {name: mib(name) for name in base}
    largest_first = sorted(base, key=lambda each: -sizes[each])
    large = [name for name in largest_first if sizes[name] >= _SMALL_MIB]
    small = sorted(name for name in base if sizes[name] < _SMALL_MIB)
    used, unused = ([name for name in small if (name in loaded) is wanted] for wanted in (True, False))
    python = ".".join(map(str, sys.version_info[:2]))
    lines = [
        f"Measured on {datetime.now(UTC):%Y-%m-%d} with Python {python} on x86-64: "
        f"{sum(sizes.values()):.0f} MiB in {len(base)} distributions, without compiled modules.",
        "",
        "| part | MiB | needed by | a demo loads it |",
        "|---|---|---|---|",
        *(_row(name, sizes[name], _needing(name, own, base, entries), loaded) for name in large),
        "",
        f"{sum(sizes[name] for name in small):.0f} MiB more are in distributions with less than "
        f"{_SMALL_MIB:.0f} MiB each: {', '.join(used)}; and, which the demo does not load, "
        f"{', '.join(unused)}.",
        "",
        "| extra | MiB more | brings |",
        "|---|---|---|",
    ]
    for extra, names in asked.items():
        more = sorted(with_needs(names, entries) - base)
        lines.append(f"| `{extra}` | {sum(map(mib, more)):.0f} | {', '.join(more)} |")
    return "\n".join([*lines, ""])


def loaded_by_demo() -> set[str]:
    """Run a demo in a fresh environment and return the distributions of which it imported something."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fresh = fresh_environment(folder / "fresh")
        fresh.install(build_wheel(tree.copy_tree(folder / "source"), folder / "dist", tree.epoch()))
        log = _note_imports(fresh)
        more = {"TOOLCHAIN_CACHE_DIR": str(cache_dir())}  # edge-rt is in it
        done = fresh.run("demo", "--board", "local", cwd=folder, more=more)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        modules = set(log.read_text().split())
    found = metadata.packages_distributions()
    return {normal(each) for module in modules for each in found.get(module, [])} | _PROGRAMS


def _note_imports(fresh: Fresh) -> Path:
    log = fresh.folder / "imported"
    (fresh.packages / "note_imports.py").write_text(_NOTE_IMPORTS.format(log=str(log)))
    (fresh.packages / "note_imports.pth").write_text("import note_imports\n")
    return log


def _needing(name: str, own: set[str], base: set[str], entries: list[Locked]) -> list[str]:
    parents = {parent for each in entries if each.name == name for parent in each.parents} & base
    return sorted(parents | ({"edge-toolchain"} if name in own else set()))


def _row(name: str, size: float, needing: list[str], loaded: set[str]) -> str:
    return f"| {name} | {size:.0f} | {', '.join(needing)} | {'yes' if name in loaded else 'no'} |"


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
