"""From a network to a tuned, verified, timed library on an edge board.

    import toolchain

    model = toolchain.load("mine.onnx")
    built = toolchain.build(model, "rk3399", "build")
    toolchain.verify(built.bundle, "rock")

`__init__.pyi` has the types, docs/howto/python.md a way through. Nothing is imported before it is used.
"""

import importlib

__version__ = "0.1.0"

_NETWORKS = "toolchain.api.networks"
_BUNDLES = "toolchain.api.bundles"
_INVENTORY = "toolchain.boards.inventory.lookup"
_MODULES = {
    "load": _NETWORKS,
    "list_tasks": _NETWORKS,
    "tune": _NETWORKS,
    "build": _NETWORKS,
    "read_bundle": "toolchain.bundles.read",
    "verify": _BUNDLES,
    "bench": _BUNDLES,
    "run": _BUNDLES,
    "list_boards": _INVENTORY,
    "find_board": _INVENTORY,
    "ModelOptions": "toolchain.models.options",
    "CodeOptions": "toolchain.tasks.options",
    "TuneOptions": "toolchain.tuning.options",
    "BuildOptions": "toolchain.building.options",
    "ToolchainError": "toolchain.errors",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    """Import what is used for the first time."""
    if name not in _MODULES:
        raise AttributeError(f"module 'toolchain' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names, whether they were used yet or not."""
    return sorted([*globals(), *_MODULES])
