"""From Relax to objects: what every way of making code shares."""
