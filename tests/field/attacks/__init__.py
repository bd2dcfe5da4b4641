"""Attacks on releases and trusts, each made against the host and against the board's installer."""
