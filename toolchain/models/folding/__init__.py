"""Computes away what follows from shapes and constants alone, before anything else sees the graph.

Exporters write shape arithmetic (`Shape`, `Gather`, `Concat`, `Reshape`), and `If` and `Loop` for what is
decided once shapes are fixed. One walk over the nodes, in their order, knows the type of every tensor and the
value of every constant before it; so each node is seen once, however long the chains are.
"""
