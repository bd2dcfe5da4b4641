"""The lab: a tracker, the servers on its boards, and sessions with them."""
