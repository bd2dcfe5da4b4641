"""`python -m toolchain` is `toolchain`."""

from toolchain.cli import main

main()
