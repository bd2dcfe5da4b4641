"""The lab: a tracker and the servers on the boards in use, and sessions with them."""
