"""Networks whose convolutions in integers a VTA computes, and the rest the CPU beside it."""
