"""The list of boards: finding, adding and removing them."""
