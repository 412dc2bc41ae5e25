#!/usr/bin/env bash
# aarch64_sysroot.sh FOLDER: headers and libraries of this Debian's release for aarch64, as the preset aarch64 needs them in
# LAMINA_SYSROOT. Downloads packages with apt into FOLDER and installs nothing.
set -euo pipefail
if [[ $# -ne 1 ]]; then
  printf 'usage: %s FOLDER\n' "$0" >&2
  exit 2
fi
mkdir -p "$1"/{usr/lib,var/lib/apt/lists/partial,var/cache/apt/archives/partial}
root=$(cd "$1" && pwd)
touch "$root/var/lib/apt/status"
[[ -e $root/lib ]] || ln -s usr/lib "$root/lib"

apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
     -o "Dir::State=$root/var/lib/apt" -o "Dir::State::status=$root/var/lib/apt/status" -o "Dir::Cache=$root/var/cache/apt")
compiler=$(dpkg-query -W -f '${Package}\n' 'libstdc++-*-dev' | sort -V | tail -n1)
"${apt[@]}" update
"${apt[@]}" install --yes --download-only --no-install-recommends libc6-dev "$compiler" zlib1g-dev libpng-dev libjpeg-dev \
  libxsimd-dev nlohmann-json3-dev libprotozero-dev libcli11-dev libboost-dev

for package in "$root"/var/cache/apt/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
done
# Absolute links lead out of the folder.
find "$root/usr/lib" -type l -lname '/*' | while read -r link; do
  ln -sfnr "$root$(readlink "$link")" "$link"
done
rm -r "$root/var"
