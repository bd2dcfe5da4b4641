"""Serialises recipes to bytes, for other processes and for hashing; equal recipes give equal bytes.

A recipe is plain data around TVM's objects. The objects become one JSON text that contains each object once,
however often the recipe refers to it, so that identities between them are kept. Names of variables carry no
meaning (`lv17` in one network is `lv23` in the next), so they are replaced by numbers.
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

_END = b"\0"  # JSON text cannot contain it


def pickled(recipe: object) -> bytes:
    """Serialise a recipe, or a part of one."""
    plain = io.BytesIO()
    pickler = _Pickler(plain)
    pickler.dump(recipe)
    text = json.dumps(_numbered(json.loads(tvm.ir.save_json(pickler.objects))), separators=(",", ":"))
    return text.encode() + _END + plain.getvalue()


def unpickled(data: bytes) -> Recipe:
    """Parse the bytes that `pickled` returned, in this process or its parent."""
    text, _end, plain = data.partition(_END)
    # `tvm.ir.load_json` also handles formats of earlier versions, which takes longer than all the rest.
    objects = from_json_graph_str(text.decode())
    recipe: Recipe = _Unpickler(plain, list(objects)).load()
    return recipe


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.fast = True  # no memo, so that equal values give equal bytes
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
    """Return TVM's JSON (nodes that refer to others by index) with numbers for names of variables."""
    nodes = graph["nodes"]
    variables = [node["data"] for node in nodes if node["type"] == "ir.Var"]
    names = {data.pop("name") for data in variables}
    used = {place for node in nodes for place in _integers(node.get("data"))}
    for place in names - used:  # a string that is also used elsewhere is kept
        nodes[place]["data"] = ""
    for number, data in enumerate(variables):
        data["name"] = len(nodes)
        nodes.append({"type": "ffi.String", "data": f"v{number}"})
    return graph


def _integers(data: Any) -> list[int]:
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return [value for value in values if isinstance(value, int)]
