# Sourced by tests of `lamina` with the arguments PROGRAM DIRECTORY NETS: sets up an empty folder with the test nets and
# checks the program's output. The array `command` precedes all arguments.
set -uo pipefail
program=$1 work=$2 nets=$3
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
"$nets" . || exit 1

failures=0
fail() { printf 'FAILED: %s\n' "$*"; failures=$((failures + 1)); }
# ends STATUS PATTERN ARGUMENT...: expects this status and matching output.
ends() {
  local expected=$1 pattern=$2 status
  shift 2
  "$program" "${command[@]}" "$@" >said 2>&1
  status=$?
  [[ $status -eq $expected ]] || { fail "status $status, not $expected: $*"; cat said; }
  grep -qE -- "$pattern" said || { fail "no \`$pattern\`: $*"; cat said; }
}
