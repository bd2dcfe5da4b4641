"""Compiles the functions of a network one by one, in several processes, and caches their objects.

`recipe -> key -> object`: a recipe contains everything a function is made from; the hash of its bytes is the
key of the function's object in the cache.
"""
