"""Candidates that are measured where no host is: exported to a folder, and imported with their results."""
