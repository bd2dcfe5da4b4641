from typing import Any

_ffi_api: Any

def __getattr__(name: str) -> Any: ...
