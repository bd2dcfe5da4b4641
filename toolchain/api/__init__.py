"""What `import toolchain` offers, and what the command line calls.

Functions take boards by name, report progress to callbacks, print nothing, and raise `ToolchainError`.
"""
