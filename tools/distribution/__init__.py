"""Makes the distribution of a version: wheel, sdist, bill of materials; and uses it as a user would."""
