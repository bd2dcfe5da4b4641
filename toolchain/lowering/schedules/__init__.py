"""Default schedules for functions without generated code."""
