"""The outputs that a network ought to give, and what they are judged by."""
