"""Signed releases: keys, trust, statements, and the stream that carries them; see docs/release-format.md."""
