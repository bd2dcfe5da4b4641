"""From a model and a board to a bundle: reference, lower, decide, compile, link, gate, bundle."""
