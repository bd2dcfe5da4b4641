from typing import Any

from tvm.ir.expr import Expr as Expr
from tvm.ir.expr import Node

class Call(Expr):
    @property
    def op(self) -> Any: ...
    @property
    def args(self) -> Any: ...

class Range(Node):
    def __init__(self, begin: Expr | int, end: Expr | int) -> None: ...

class GlobalVar(Expr):
    def __init__(self, name_hint: str) -> None: ...
    @property
    def name_hint(self) -> str: ...

class Op(Expr):
    name: str
    @staticmethod
    def get(name: str) -> Op: ...

def __getattr__(name: str) -> Any: ...
