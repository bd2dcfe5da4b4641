#!/bin/sh
exec /opt/venv/bin/python -m toolchain "$@"
