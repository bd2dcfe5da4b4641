"""The final comparison: a task's finalists with each other, and in the whole network."""
