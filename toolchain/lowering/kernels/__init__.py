"""Functions of a network, compiled one by one: in several processes, and each once.

`recipe -> key -> object`: what a function is made from, as bytes, names it; an object of that name that was
kept is as good as a new one. `parts` puts the objects of a network together.
"""
