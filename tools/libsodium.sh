#!/bin/sh
# Write toolchain/native/libsodium anew: the files of libsodium that edge-rt is compiled from, unchanged, out of the source
# of PyNaCl that requirements.lock pins.
#   libsodium.sh [FOLDER]   the folder that is replaced; default: toolchain/native/libsodium
set -eu
cd "$(dirname "$0")/.."
to=${1:-toolchain/native/libsodium}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# All hashes of the lock are pip's to choose from; --no-binary leaves the one of the source.
sed -n '/^pynacl==/,/^ *#/p' requirements.lock | sed '/^ *#/d; $s/ \\$//' >"$work/requirements.txt"
.venv/bin/python -m pip download --quiet --disable-pip-version-check --no-input \
    --no-deps --no-binary pynacl --require-hashes --requirement "$work/requirements.txt" --dest "$work"
tar -xzf "$work"/pynacl-*.tar.gz -C "$work" --strip-components 1
from=$work/src/libsodium

rm -rf "$to"
mkdir -p "$to"
to=$(cd "$to" && pwd)
cp "$from/LICENSE" "$to"
cd "$from/src/libsodium"
cp -r --parents \
    crypto_sign/ed25519/ref10/open.c crypto_sign/ed25519/ref10/sign.c crypto_sign/ed25519/ref10/sign_ed25519_ref10.h \
    crypto_core/ed25519/ref10 crypto_hash/sha256/cp crypto_hash/sha512/cp crypto_verify/verify.c sodium/utils.c \
    include/sodium/core.h include/sodium/crypto_hash_sha256.h include/sodium/crypto_hash_sha512.h \
    include/sodium/crypto_sign_ed25519.h include/sodium/crypto_verify_16.h include/sodium/crypto_verify_32.h \
    include/sodium/crypto_verify_64.h include/sodium/export.h include/sodium/randombytes.h include/sodium/utils.h \
    include/sodium/private/common.h include/sodium/private/ed25519_ref10.h \
    include/sodium/private/ed25519_ref10_fe_25_5.h include/sodium/private/ed25519_ref10_fe_51.h \
    "$to"
