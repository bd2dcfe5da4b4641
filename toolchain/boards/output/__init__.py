"""What commands on boards print: passed on, kept, exchanged."""
