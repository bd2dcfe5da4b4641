"""From a model and a board to a library: pipeline, schedules, export."""
