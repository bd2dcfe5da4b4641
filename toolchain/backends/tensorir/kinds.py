"""Which records say how MetaSchedule schedules a task."""

METASCHEDULE = "metaschedule"
"""The kind of a record whose payload is a trace, see `traces`."""
DEFAULT = "default"
"""The kind of a record without a payload: the schedule that a build chooses by itself won."""
KINDS = (METASCHEDULE, DEFAULT)
