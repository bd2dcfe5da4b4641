#!/bin/sh
# Hook of a RAUC bundle: the image of the slot `app` is a release file, which edge-rt installs instead of RAUC.
set -eu
case $1 in
  install-check) ;; # RAUC has checked the bundle's own signature and `compatible`
  slot-install)
    [ "$RAUC_SLOT_CLASS" = app ] || { echo "no slot of class app: $RAUC_SLOT_CLASS" >&2; exit 1; }
    exec /opt/edge-toolchain/edge-rt install "$RAUC_IMAGE_NAME" --field /opt/edge-toolchain/field >&2
    ;;
  *) echo "unknown hook $1" >&2; exit 1;;
esac
