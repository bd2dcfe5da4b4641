"""Releases as Mender artifacts, and the update module that installs them on boards."""
