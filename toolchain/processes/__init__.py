"""Processes: workers with timeouts, process identities, deferred signals."""
