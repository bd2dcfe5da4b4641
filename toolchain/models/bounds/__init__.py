"""Values that decide what memory is touched, or what is divided by: checked while a network computes."""
