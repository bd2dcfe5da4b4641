"""Fast code for CPUs and devices: packed layouts and generated functions for each task of a fused network.

`recognise` reads what an unpacked fused function computes; `network.plan` chooses layouts and a choice for
every call; the algorithms of `algorithms.table` generate the packed function; `network.rewrite` puts the
network together again. docs/decisions/0019 has the reasons.
"""
