"""Staged installation of signed releases on boards: plan, phases, gates, journal."""
