# The Zynq's core, and what all later ones run too.
set(ARCH_OPTIONS -mcpu=cortex_a9)
# Functions of Arm's run-time ABI, which libraries of networks call.
set(ARCH_SOURCES aeabi.cc)
# There are no numbers of 128 bits.
set(ARCH_INT128 OFF)
