"""The fused functions of a network: tasks, their names by content, their definitions."""
