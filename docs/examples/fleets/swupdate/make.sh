#!/bin/sh
# Writes a signed update for SWUpdate: make.sh RELEASE_FILE VERSION CERTIFICATE KEY TARGET, such as
#   make.sh small.edge 1.4.0 release.cert.pem release.key.pem counter-1.4.0.swu
# SWUpdate puts the release file on the board, and runs install.sh, which gives it to edge-rt.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1" "$work/release.edge"
cp "$(dirname "$0")/install.sh" "$work"
digest() { sha256sum <"$work/$1" | cut -c -64; }
cat >"$work/sw-description" <<EOF
software = {
  version = "$2";
  rk3399 = {
    hardware-compatibility = [ "1" ];
    files = ( { filename = "release.edge"; path = "/opt/edge-toolchain/release.edge"; sha256 = "$(digest release.edge)"; } );
    scripts = ( { filename = "install.sh"; type = "postinstall"; sha256 = "$(digest install.sh)"; } );
  };
};
EOF
openssl cms -sign -in "$work/sw-description" -out "$work/sw-description.sig" -signer "$3" -inkey "$4" -outform DER -nosmimecap -binary
(cd "$work" && printf '%s\n' sw-description sw-description.sig release.edge install.sh | cpio --quiet -o -H crc) >"$5"
