"""Kinds of devices that compute on boards: a row of one table for each, and plugins' rows beside them."""
