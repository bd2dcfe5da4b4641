#!/bin/sh
exec sh "$(dirname "$0")/../smoke/cross.sh" aarch64-linux-gnu qemu-aarch64-static rk3399
