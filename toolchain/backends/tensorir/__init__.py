"""Plain loops scheduled by MetaSchedule."""
