"""Records that the project ships: a file of `records export` beside this one, asked last."""
