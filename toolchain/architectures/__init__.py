"""The architectures there are: a row of one table for each; what differs between them is a column."""
