"""From a board class to a tvm Target."""
