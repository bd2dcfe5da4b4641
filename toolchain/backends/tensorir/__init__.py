"""The backend `tensorir`: plain loops scheduled by MetaSchedule."""
