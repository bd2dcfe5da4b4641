#!/bin/sh
exec sh "$(dirname "$0")/../smoke/cross.sh" arm-linux-gnueabihf qemu-arm-static pynq
