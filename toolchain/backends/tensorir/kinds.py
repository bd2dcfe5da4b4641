"""The kinds of records that MetaSchedule's schedules have."""

METASCHEDULE = "metaschedule"
"""Kind of a record whose payload is a trace, see `traces`."""
DEFAULT = "default"
"""Kind of a record without payload: the default schedule of a build won."""
KINDS = (METASCHEDULE, DEFAULT)
