"""The commands, each in a function of its own name; `cli.root` has the table of their modules."""
