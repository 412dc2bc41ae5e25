#!/usr/bin/env bash
# locale.sh PROGRAM DIRECTORY NETS: tests that `lamina` reads and prints the same in a locale with a decimal comma.
# LAMINA_LOCALE_PRELOAD runs a program in such a locale (tests/support/foreign_locale.cpp).
. "$(dirname "${BASH_SOURCE[0]}")/ends.sh"
# Times and free memory differ from run to run.
steady() { sed -E 's/[0-9]+ images\/s/N images\/s/g; s/[0-9]+ MiB/N MiB/g' "$1"; }
# same STATUS ARGUMENT...: compares status, output and the files in `out`.
same() {
  local expected=$1 status
  shift
  rm -rf out && mkdir out
  "$program" "$@" >here 2>&1
  status=$?
  [[ $status -eq $expected ]] || { fail "status $status, not $expected: $*"; cat here; }
  rm -rf out_here && mv out out_here && mkdir out
  LD_PRELOAD=$LAMINA_LOCALE_PRELOAD "$program" "$@" >there 2>&1
  status=$?
  [[ $status -eq $expected ]] || { fail "status $status, not $expected, with a comma: $*"; cat there; }
  [[ $(steady here) == "$(steady there)" ]] || { fail "another output with a comma: $*"; diff here there; }
  diff -r out_here out || fail "other files with a comma: $*"
}

same 0 show net
same 0 show digits
same 0 show x.npy --values
same 0 show double.npy --values
same 0 run net --input x.npy
same 0 plan digits
same 0 draw net
same 0 doctor
same 0 train net --images pictures.npy --labels classes.npy --validation-images pictures.npy --validation-labels classes.npy \
  --epochs 3 --batch 10 --rate 0.0125 --mean 1e-1 --deviation 2.5 --out out/trained
same 0 profile net --input x.npy --out out/net.profile.json
cp out/net.profile.json . || fail "no profile"
same 0 quantize net --profile net.profile.json --out out/int8
same 2 train net --images pictures.npy --labels classes.npy --rate 0,01 --out out/trained
grep -q -- '--rate: 0,01; expected a finite number above 0' there || { fail "a comma is taken"; cat there; }
for rate in 0 -1 nan inf 1e999 0.1x ''; do
  same 2 train net --images pictures.npy --labels classes.npy --rate "$rate" --out out/trained
done
[[ $failures -eq 0 ]] || exit 1
