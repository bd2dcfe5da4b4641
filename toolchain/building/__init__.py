"""Builds a bundle from a model.

A build computes the reference outputs, lowers the model to tasks, and decides by record or default how each
task is computed. Then it compiles the tasks, links them to a library, checks the library's ELF headers, and
writes the bundle.
"""
