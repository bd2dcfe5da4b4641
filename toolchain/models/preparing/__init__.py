"""From a file's graph to the one that was asked for."""
