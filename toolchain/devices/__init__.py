"""Kinds of devices that compute on boards: one table, with a row for each kind; plugins add rows."""
