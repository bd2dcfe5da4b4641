"""The machine in software, as a child process, and what it tells."""
