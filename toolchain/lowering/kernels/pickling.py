"""Recipes as bytes, the same for the same recipe: what other processes are handed, and what is hashed.

A recipe is plain data around TVM's objects. The objects become one JSON text, in which each is there once
however often the recipe refers to it, so that they are the same to one another when they are read again.
Names of variables say nothing: `lv17` in one network is `lv23` in the next. They are numbered instead.
"""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import tvm
import tvm_ffi
from tvm_ffi.serialization import from_json_graph_str

from toolchain.lowering.kernels.recipe import Recipe

_END = b"\0"  # no JSON text holds it


def pickled(recipe: object) -> bytes:
    """Return a recipe, or a part of one, as bytes."""
    plain = io.BytesIO()
    pickler = _Pickler(plain)
    pickler.dump(recipe)
    text = json.dumps(_numbered(json.loads(tvm.ir.save_json(pickler.objects))), separators=(",", ":"))
    return text.encode() + _END + plain.getvalue()


def unpickled(data: bytes) -> Recipe:
    """Return the recipe that `pickled` made bytes of, in this process or its parent."""
    text, _end, plain = data.partition(_END)
    # `tvm.ir.load_json` looks for what earlier versions wrote, which takes longer than all else here.
    objects = from_json_graph_str(text.decode())
    recipe: Recipe = _Unpickler(plain, list(objects)).load()
    return recipe


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.fast = True  # without a memory of what it wrote: equal values are the same bytes
        self.objects: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, tvm_ffi.Object):
            return None
        self.objects.append(value)
        return len(self.objects) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, plain: bytes, objects: list[Any]) -> None:
        super().__init__(io.BytesIO(plain))
        self.objects = objects

    def persistent_load(self, place: int) -> Any:
        return self.objects[place]


def _numbered(graph: dict[str, Any]) -> dict[str, Any]:
    """Return TVM's JSON (nodes that refer to others by their places) with numbers for names of variables."""
    nodes = graph["nodes"]
    variables = [node["data"] for node in nodes if node["type"] == "ir.Var"]
    names = {data.pop("name") for data in variables}
    used = {place for node in nodes for place in _integers(node.get("data"))}
    for place in names - used:  # a name may be a word that means something elsewhere
        nodes[place]["data"] = ""
    for number, data in enumerate(variables):
        data["name"] = len(nodes)
        nodes.append({"type": "ffi.String", "data": f"v{number}"})
    return graph


def _integers(data: Any) -> list[int]:
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return [value for value in values if isinstance(value, int)]
