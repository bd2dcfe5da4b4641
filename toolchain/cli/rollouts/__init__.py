"""How rollouts are shown: a live table on a terminal, lines elsewhere."""
