"""TVM targets for board classes."""
