"""Processes: workers that can be killed, identities, signals that are put off."""
