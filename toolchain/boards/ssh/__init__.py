"""The connection to boards over SSH."""
