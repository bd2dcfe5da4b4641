"""Schedulers, which divide the trials of a run among its tasks."""
