"""The functions behind `import toolchain`, which the command line calls, too.

Functions take boards by name, report progress to callbacks, print nothing, and raise `ToolchainError`.
"""
