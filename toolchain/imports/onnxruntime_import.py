"""onnxruntime, which is imported here alone: it must be told before not to report on its user.

Since 1.31 it writes a device's id into the home folder and looks for its maker's servers, unless a variable
forbids it (seen with 1.31.1: `~/.cache/Microsoft/DeveloperTools`). Processes that we start inherit it.
"""

from __future__ import annotations

import os

NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"

os.environ[NO_TELEMETRY] = "1"

import onnxruntime  # noqa: E402

__all__ = ["NO_TELEMETRY", "onnxruntime"]
