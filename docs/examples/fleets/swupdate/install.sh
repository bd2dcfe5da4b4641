#!/bin/sh
# SWUpdate runs it on the board, once the release file lies there: the update fails if edge-rt refuses the release.
cd /opt/edge-toolchain
./edge-rt install release.edge --field field
ended=$?
rm release.edge
exit $ended
