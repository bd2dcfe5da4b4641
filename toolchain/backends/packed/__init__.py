"""Fast code for CPUs: packed layouts and generated functions, chosen per function of a fused network.

`read` says what an unpacked fused function computes, `plan` chooses layouts and a rule for every call,
the algorithms of `algorithms.table` write the packed function, and `rewrite`
puts the network together again. docs/decisions/0019 has the reasons.
"""
