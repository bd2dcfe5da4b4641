"""Events of rollouts, and event logs: files in which commands write their progress for `toolchain ui`."""
