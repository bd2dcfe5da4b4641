"""Makes the repository the source of the site: its texts as they are, and a page for each file they link to.

mkdocs calls the functions that begin with `on_`. The site has the folders of the repository, so that a link
between texts is the same in both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
TEXTS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
COPIED = (".js", ".md", ".png", ".svg")
"""Suffixes of files that the site has as they are; of any other file it has a page that shows it."""

LINK = re.compile(r"(?<=\]\()[^)#:\s]+")
LANGUAGES = {
    ".c": "c",
    ".cc": "c++",
    ".h": "c++",
    ".json": "json",
    ".py": "python",
    ".sh": "sh",
    ".toml": "toml",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the version into the header and the footer of each page."""
    source = (ROOT / "toolchain" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    if not found:
        raise PluginError('toolchain/__init__.py has no line `__version__ = "…"` for the pages\' header')
    config.site_name = f"{config.site_name} {found[1]}"
    config.copyright = f"{config.site_name}, under the Apache License 2.0"
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Replace the files of `docs_dir` by the pages of the whole repository."""
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    pages = [uri(ROOT / name) for name in TEXTS] + [uri(text) for text in texts()]
    for name, content in contents().items():
        inclusion = InclusionLevel.UNDEFINED if name in pages else InclusionLevel.NOT_IN_NAV
        if content is None:
            place = (name, str(ROOT), config.site_dir, config.use_directory_urls)
            files.append(File(*place, inclusion=inclusion))
        else:
            files.append(File.generated(config, name, content=content, inclusion=inclusion))
    config.nav = list(expanded(config.nav or [], places(list(named(config.nav or [])), pages)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Lead links to folders, and to files without a page of their own, to the pages that show them."""
    if page.file.generated_by:
        return markdown
    text = ROOT / page.file.src_uri
    titled = re.sub(
        r"\A<!--.*?-->\s*", "", markdown, flags=re.DOTALL
    )  # a title is only found in the first line
    return LINK.sub(lambda found: address(text, found[0]), titled)


def on_page_content(html: str, **_: Any) -> str:
    """Remove the backslash of bars in tables, which others want and Python-Markdown shows in code."""
    return re.sub(r"<td\b.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Remove the map for search engines, which is empty: the site has no address."""
    for path in Path(config.site_dir).glob("sitemap.xml*"):
        path.unlink()


def texts() -> list[Path]:
    """Return the Markdown files below docs."""
    return sorted((ROOT / "docs").glob("**/*.md"))


def uri(path: Path) -> str:
    """Return the name, relative to the repository, of the page that shows a file or folder."""
    if path.is_dir():
        path /= "README.md" if (path / "README.md").is_file() else "index.md"
    name = path.relative_to(ROOT).as_posix()
    return name if path.suffix in COPIED else f"{name}.md"


def address(text: Path, link: str) -> str:
    """Return what a link of a text is on the site."""
    target = Path(os.path.normpath(text.parent / link))
    if not target.exists() or target.suffix in COPIED:
        return link
    return os.path.relpath(ROOT / uri(target), text.parent)


def contents() -> dict[str, str | None]:
    """Return the Markdown of each page by its name; None for files that the site has as they are."""
    found: dict[str, str | None] = {}
    waiting = [
        *(ROOT / name for name in TEXTS),
        *texts(),
        *(ROOT / "docs/site").glob("*.js"),
    ]
    while waiting:
        path = waiting.pop()
        if uri(path) in found:
            continue
        if path.is_dir() and (path / "README.md").is_file():
            waiting.append(path / "README.md")
        elif path.is_dir():
            inside = sorted(file for file in path.rglob("*") if is_text(file))
            found[uri(path)] = listing(path, inside)
            waiting += inside
        elif path.suffix in COPIED:
            found[uri(path)] = None
            waiting += links(path) if path.suffix == ".md" else []
        else:
            found[uri(path)] = source(path)
    return found


def is_text(path: Path) -> bool:
    """Return whether a file is one that people read."""
    if not path.is_file() or "__pycache__" in path.parts:
        return False
    try:
        path.read_text()
    except UnicodeDecodeError:
        return False
    return True


def links(text: Path) -> Iterator[Path]:
    """Yield the files and folders that a text links to."""
    for link in LINK.findall(text.read_text()):
        target = Path(os.path.normpath(text.parent / link))
        if target.exists():
            yield target


def listing(folder: Path, files: list[Path]) -> str:
    """Return a page that lists the files of a folder, texts by their title."""
    name = folder.relative_to(ROOT).as_posix()
    lines = [f"# `{name}`", ""]
    for file in files:
        found = re.search(r"^# (.+)", file.read_text(), re.MULTILINE) if file.suffix == ".md" else None
        label = found[1] if found else f"`{file.relative_to(folder).as_posix()}`"
        lines.append(f"- [{label}]({os.path.relpath(ROOT / uri(file), folder)})")
    return unsearched("\n".join(lines))


def source(file: Path) -> str:
    """Return a page that shows a file."""
    text = file.read_text().rstrip("\n")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    name, language = file.relative_to(ROOT).as_posix(), LANGUAGES.get(file.suffix, "text")
    return unsearched(f"# `{name}`\n\n{fence}{language}\n{text}\n{fence}")


def unsearched(page: str) -> str:
    """Return a page that search leaves out."""
    return f"---\nsearch:\n  exclude: true\n---\n\n{page}\n"


def named(nav: list[Any]) -> Iterator[str]:
    """Yield the pages that a navigation names."""
    for item in nav:
        for inner in item.values() if isinstance(item, dict) else [item]:
            yield from named(inner) if isinstance(inner, list) else [inner]


def places(names: list[str], pages: list[str]) -> dict[str, list[str]]:
    """Return the pages of each pattern: those that are not named, each with the longest that it matches."""
    found: dict[str, list[str]] = {name: [] for name in names if "*" in name}
    for page in pages:
        matching = [pattern for pattern in found if PurePosixPath(page).match(pattern)]
        if matching and page not in names:
            found[max(matching, key=len)].append(page)
    return found


def expanded(nav: list[Any], found: dict[str, list[str]]) -> Iterator[Any]:
    """Yield the items of a navigation with the pages of a pattern in its place."""
    for item in nav:
        if isinstance(item, dict):
            ((title, inner),) = item.items()
            yield {title: list(expanded(inner, found)) if isinstance(inner, list) else inner}
        else:
            yield from found.get(item, [item])
