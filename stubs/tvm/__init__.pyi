from typing import Any, TypeAlias

from tvm import ir as ir
from tvm import relax as relax
from tvm import s_tir as s_tir
from tvm import te as te
from tvm import tirx as tirx

IRModule: TypeAlias = Any

def __getattr__(name: str) -> Any: ...
