"""The interfaces between backends, tuning and building: tasks, spaces, tuners, candidates, results."""
