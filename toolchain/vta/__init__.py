"""The accelerator VTA: its configurations, its instructions, and what keeps a program portable.

`config`, `isa`, `disasm`, `lint` and `layout` describe the machine; none of them imports TVM.
"""
