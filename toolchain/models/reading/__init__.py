"""Sources, as graphs with their weights inside."""
