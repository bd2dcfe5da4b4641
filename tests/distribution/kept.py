"""The files of the first version, which every later one reads."""

from __future__ import annotations

from tools.distribution.tree import ROOT

KEPT = ROOT / "tests" / "data" / "0.1.0"
