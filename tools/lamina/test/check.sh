#!/usr/bin/env bash
# check.sh PROGRAM DIRECTORY: what the program `lamina` prints, and how it ends.
set -uo pipefail
program=$1 work=$2

rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1

failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }
ends() {
  local expected=$1 status
  shift
  "$program" "$@" >stdout 2>stderr
  status=$?
  [[ $status -eq $expected ]] || { fail "status $status, not $expected: $*"; cat stdout stderr; }
}
# refused PATTERN ARGUMENT...: status 2 and one line on stderr that matches.
refused() {
  local pattern=$1
  shift
  ends 2 "$@"
  [[ $(wc -l <stderr) -eq 1 && ! -s stdout ]] || { fail "not one line on stderr alone: $*"; cat stdout stderr; }
  grep -qE -- "$pattern" stderr || { fail "no \`$pattern\` on stderr: $*"; cat stderr; }
}
plain() { LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]' "$1" && { fail "$1 holds control characters"; cat -v "$1"; }; }
# safetensors FILE HEADER DATA: a file of the format; the header is shorter than 64 KiB.
safetensors() {
  local n=${#2}
  printf "\\x$(printf %02x $((n & 255)))\\x$(printf %02x $((n >> 8)))\\0\\0\\0\\0\\0\\0" >"$1"
  printf '%s%s' "$2" "$3" >>"$1"
}

# Usage.
refused 'subcommand'
refused 'colour' show --colour file
refused 'required' show
refused 'subcommand' melt
for option in --help --version; do
  ends 0 "$option"
  [[ -s stdout && ! -s stderr ]] || fail "$option is not on stdout alone"
done
ends 0 show --help
ends 0 machine
grep -q '^cores: ' stdout || fail "machine tells no cores"

# Files.
safetensors good.safetensors '{"__metadata__":{"by":"hand"},"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' abcd
ends 0 show good.safetensors
[[ $(tr -s ' ' <stdout) == $'w uint8[4]\nby: hand\n1 tensors, 4 bytes' ]] || { fail "what a file holds"; cat stdout; }
ends 0 show --values good.safetensors
grep -q '97.*100' stdout || { fail "no elements"; cat stdout; }
refused 'nowhere.safetensors: cannot be read' show nowhere.safetensors
refused 'the path is empty' show ''
head -c 60 good.safetensors >cut.safetensors
refused 'cut.safetensors: header length' show cut.safetensors

# Names that would break lines, command a terminal, or never end.
long=$(printf '%05000d' 0)
safetensors evil.safetensors \
  '{"__metadata__":{"k\u001b[2J":"v\nw'"$long"'"},"a\n\u001b[31mb\u007f":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"'"$long"'":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' ''
ends 0 show evil.safetensors
plain stdout
[[ $(wc -l <stdout) -eq 4 && $(wc -c <stdout) -lt 3000 ]] || { fail "a hostile name breaks or floods the list"; cat -v stdout; }
grep -qF 'a\n\x1b[31mb\x7f' stdout || { fail "a name is not escaped"; cat -v stdout; }
safetensors worse.safetensors '{"a\n\u001b[31m'"$long"'":{"dtype":"U8\n\u0007'"$long"'","shape":[0],"data_offsets":[0,0]}}' ''
refused 'tensor `a\\n\\x1b\[31m0+\.\.\. \(5007 bytes\)`: dtype' show worse.safetensors
plain stderr
[[ $(wc -c <stderr) -lt 600 ]] || fail "an endless error"

# A full standard output.
"$program" show good.safetensors >/dev/full 2>stderr
[[ $? -eq 2 && $(wc -l <stderr) -eq 1 ]] || fail "a full standard output went unnoticed"
"$program" --help >/dev/full 2>stderr
[[ $? -eq 2 && $(wc -l <stderr) -eq 1 ]] || fail "a full standard output went unnoticed by --help"

[[ $failures -eq 0 ]] || exit 1
echo "good"
