"""Checks what is installed on this machine, and reports where each setting came from."""

from __future__ import annotations

from toolchain.doctor.diagnosis import diagnose, settings_with_origins
from toolchain.doctor.probes import Check

__all__ = ["Check", "diagnose", "settings_with_origins"]
