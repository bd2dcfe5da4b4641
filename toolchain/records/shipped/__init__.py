"""Records that the project ships: an exported file beside this module, which builds search last."""
