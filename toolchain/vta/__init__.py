"""The accelerator VTA: its configurations and instructions, a compiler, a linter and a simulator for it.

`design` and `isa` describe the machine, `layers` integer convolutions; `compiling` makes programs from them,
`lint` checks that programs are portable, `machine` simulates them, and `dumps` stores them with their memory.
None of them imports TVM.
"""
