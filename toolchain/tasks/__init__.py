"""The seam between who makes code, who searches for it and who builds it: tasks, spaces, tuners, backends."""
