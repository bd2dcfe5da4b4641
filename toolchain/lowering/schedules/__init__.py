"""Schedules for functions that no backend has code for."""
