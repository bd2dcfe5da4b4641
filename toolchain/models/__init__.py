"""From a source (zoo name or file) to a Model: a static graph, its Relax module and its reference."""
