"""A model of the Mali-T860: Mesa's compiler says what a kernel becomes, an estimate how long that takes.

Nothing here runs on a Mali, and no time in here was measured.
"""
