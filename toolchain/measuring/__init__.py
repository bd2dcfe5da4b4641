"""Running a bundle on a board: with the user's data, against its reference, against the clock."""
