"""Imports onnxruntime with its telemetry switched off; all other modules import it from here.

Since version 1.31, unless an environment variable forbids it, onnxruntime writes a device id into the home
folder and contacts Microsoft's servers (seen with 1.31.1: `~/.cache/Microsoft/DeveloperTools`). Child
processes inherit the variable.
"""

from __future__ import annotations

import os

NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"

os.environ[NO_TELEMETRY] = "1"

import onnxruntime  # noqa: E402

__all__ = ["NO_TELEMETRY", "onnxruntime"]
