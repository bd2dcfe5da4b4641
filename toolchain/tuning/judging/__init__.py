"""The last comparison: finalists of a task, and the whole network with what was found."""
