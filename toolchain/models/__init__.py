"""Loads a source (zoo name or file) as a Model: a static graph, its Relax module and its reference."""
