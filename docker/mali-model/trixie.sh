#!/bin/sh
# trixie.sh FOLDER: puts Debian 13's source of Mesa, its meson and its bindgen into FOLDER. Debian 12's are too old; all
# else is Debian 12's. bindgen gets its own C library beside it. The source is told by its hash, whatever the archive has.
set -eu
export DEBIAN_FRONTEND=noninteractive
version=25.0.7
hash=592272df3cf01e85e7db300c449df5061092574d099da275d19e97ef0510f8a6
folder=$1
work=$(mktemp -d)
mkdir -p "$work/partial" "$work/lists/partial" "$folder/root"
chown -R _apt "$work"
cat >"$work/sources.list" <<END
deb $MIRROR trixie main
deb-src $MIRROR trixie main
END
: >"$work/status"
cat >"$work/apt.conf" <<END
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::Cache::Archives "$work";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Acquire::https::CAInfo "/certs/ca.pem";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Update::Error-Mode "any";
END
export APT_CONFIG="$work/apt.conf"
cd "$work"
apt-get -q update
apt-get -q download meson bindgen libc6 libgcc-s1
apt-get -q source --download-only --tar-only mesa
echo "$hash  mesa_$version.orig.tar.xz" | sha256sum --check --quiet || {
  echo "the archive's Mesa is not $version as this image knows it" >&2
  exit 1
}
mv "mesa_$version.orig.tar.xz" "$folder/mesa.tar.xz"
for package in bindgen_*.deb libc6_*.deb libgcc-s1_*.deb; do
  dpkg-deb -x "$package" "$folder/root"
done
dpkg-deb -x meson_*.deb "$folder/meson"
rm -rf "$work"
