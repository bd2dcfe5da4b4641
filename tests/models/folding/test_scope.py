"""Scopes of graphs that are written flat: an inner name hides an outer one."""

from __future__ import annotations

from toolchain.models.folding.folded import Scope


def test_inner_name_hides_outer_name() -> None:
    whole = Scope()
    whole.names.update(x="x", w="w.3")
    inner = Scope(Scope(whole))
    inner.names["x"] = "x.1"
    assert [inner.find(name) for name in ("x", "w", "unknown")] == ["x.1", "w.3", "unknown"]
    assert whole.find("x") == "x", "what an inner graph calls a tensor is not seen outside"
