"""Constant folding: computes everything that follows from shapes and constants alone.

Exporters write shape arithmetic (`Shape`, `Gather`, `Concat`, `Reshape`), and `If` and `Loop` for decisions
that fixed shapes determine. One walk over the nodes in their order keeps the type of every tensor and the
value of every constant seen so far; so each node is visited once, however long the chains are.
"""
