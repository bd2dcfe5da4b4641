"""From layers to a program: cut into pieces, ordered, written as instructions."""
