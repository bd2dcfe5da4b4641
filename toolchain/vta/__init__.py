"""The accelerator VTA: its configurations, its instructions, what keeps a program portable; programs for it.

`config`, `isa`, `disasm`, `lint` and `layout` describe the machine, `simulator` is one. `layers` says what a
convolution computes, `knobs` how it is cut, `schedule` makes its instructions, `assemble` a program of many.
None of them imports TVM.
"""
