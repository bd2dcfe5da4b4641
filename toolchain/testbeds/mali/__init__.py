"""A model of the Mali-T860: Mesa's compiler compiles a kernel, and a formula estimates its time.

Nothing here runs on a Mali, and no time here was measured.
"""
