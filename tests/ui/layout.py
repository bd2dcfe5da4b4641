"""The boxes of the page's parts, and the references that tests compare them with.

`python -m tests.ui.layout` writes the references anew: look at the page before you commit them.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.ui.browser import Tab

REFERENCES = Path(__file__).parents[1] / "data" / "ui-layout.json"
WIDTHS = (360, 1080)
LIVE = "document.getElementById('link')?.textContent === 'live'"

# Parts by name: the first element of a selector.
PARTS = {
    "title": "h1",
    "connection": "#link",
    "rollout": "#now > details:nth-child(1)",
    "shares": "svg.shares",
    "boards of the rollout": ".tall",
    "build": "#now > details:nth-child(2)",
    "bar": "#now > details:nth-child(2) progress",
    "run": "#now > details:nth-child(3)",
    "facts": "#now > details:nth-child(3) .facts",
    "curve": "svg.curve",
    "tasks": "#now > details:nth-child(3) .scroll",
    "spark": "svg.spark",
    "boards": "section:nth-of-type(2) .scroll",
    "ended": "#ended > details:nth-child(1)",
}

_MEASURE = """
(() => {
  const found = {};
  for (const [name, selector] of Object.entries(%s)) {
    const box = document.querySelector(selector).getBoundingClientRect();
    found[name] = [box.x, box.y + scrollY, box.width, box.height].map(Math.round);
  }
  return found;
})()
"""


def boxes(tab: Tab) -> dict[str, list[int]]:
    """Return x, y, width and height of each part, in pixels."""
    return dict(tab.value(_MEASURE % json.dumps(PARTS)))


def opened(tab: Tab, url: str, **how: Any) -> None:
    """Open the page, and wait until all that the scene tells is drawn."""
    tab.open(url, **how)
    tab.until(f"{LIVE} && document.querySelectorAll('#now > details').length === 3")
    tab.until("document.querySelectorAll('svg.curve path').length === 1")
    tab.until("document.querySelectorAll('#boards tr').length === 1")


def write_references() -> None:
    """Measure the page of the scene, and write the references."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TOOLCHAIN_STATE_DIR"] = folder
        from tests.ui import scene
        from tests.ui.browser import browser
        from tests.ui.pages import served

        logs = scene.everything()
        boxes_by_width = {}
        with served() as page, browser(Path(folder)) as tab:
            for width in WIDTHS:
                opened(tab, page.url, width=width)
                boxes_by_width[width] = boxes(tab)
        assert logs
    REFERENCES.write_text(json.dumps(boxes_by_width, indent=1) + "\n")


if __name__ == "__main__":
    write_references()
