"""Code for Arm boards judged without one: executed instructions, and LLVM's model of hot loops."""
