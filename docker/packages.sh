#!/bin/sh
# packages.sh FOLDER PACKAGE...
# Unpacks Debian packages, with all they need that is not in this stage, into FOLDER: the final
# stage takes it by `COPY --from`. They are not installed: none of their scripts runs, and neither
# the mirror ($MIRROR) nor the authorities (/certs) are left in an image.
set -eu
export DEBIAN_FRONTEND=noninteractive
folder=$1
shift
. /etc/os-release
work=$(mktemp -d)
mkdir -p "$work/partial" "$folder/usr"
chown -R _apt "$work"
echo "deb $MIRROR $VERSION_CODENAME main" >"$work/sources.list"
cat >"$work/apt.conf" <<END
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::Cache::Archives "$work";
Acquire::https::CAInfo "/certs/ca.pem";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
END
export APT_CONFIG="$work/apt.conf"
apt-get -q update
apt-get -q -y install --download-only "$@"
for package in "$work"/*.deb; do
  dpkg-deb -x "$package" "$folder"
done
# /bin and the like are links here.
for name in bin sbin lib lib64 lib32; do
  if [ -d "$folder/$name" ] && [ ! -L "$folder/$name" ]; then
    mkdir -p "$folder/usr/$name"
    cp -a "$folder/$name/." "$folder/usr/$name/"
    rm -r "${folder:?}/$name"
  fi
done
cd "$folder/usr"
rm -rf share/doc share/man share/info share/locale share/lintian share/bash-completion share/bug \
  share/gdb share/applications share/pixmaps share/icons
rm -rf "$work" /var/lib/apt/lists/*
