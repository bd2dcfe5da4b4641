"""Imports run one way, those that only annotations need included."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def circle_of(graph: grimp.ImportGraph) -> list[str]:
    """Return modules of which each is imported by the next, and the last by the first; empty if none are."""
    modules = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("toolchain", cache_dir=None)
    assert len(graph.modules) > 500
    assert circle_of(graph) == []
    graph.add_import(importer="toolchain.devices.kind", imported="toolchain.devices.table")
    assert "toolchain.devices.kind" in circle_of(graph)
