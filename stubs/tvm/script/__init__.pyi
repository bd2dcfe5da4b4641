from typing import Any

tirx: Any
