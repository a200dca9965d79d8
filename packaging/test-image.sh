#!/usr/bin/env bash
# Tests the static binary, and the image that Containerfile describes, without an engine for containers: makes the image's
# files as Containerfile says, and runs its command in a root folder that has nothing else.
#
#   packaging/test-image.sh [BINARY]    BINARY: a static build, instead of target/packaging/static/byname
#
# Needs root. It changes nothing on this machine: it runs in namespaces of its own, and ends with code 77 if it cannot have
# them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$(realpath "${1:-target/packaging/static/byname}")
file=packaging/Containerfile

fail() {
  echo "test-image.sh: $*" >&2
  exit 1
}

[[ -x $binary ]] || fail "there is no $binary: see packaging/static.sh"
if [[ -z ${BYNAME_TEST_APART:-} ]]; then
  ((EUID == 0)) || fail "needs root"
  unshare --mount --net true 2>/dev/null || exit 77
  BYNAME_TEST_APART=1 exec unshare --mount --net "$0" "$binary"
fi
ip link set lo up
context=$(dirname "$binary")
root=$(mktemp -d)
router=
trap '[[ -z $router ]] || kill "$router" 2>/dev/null || true; umount "$root" 2>/dev/null || true; rmdir "$root"' EXIT
mount -t tmpfs tmpfs "$root"

# The value of a JSON list of words, one on each line.
words() { tr -d '[]"' <<<"$1" | tr ',' '\n' | sed 's/^ *//; s/ *$//'; }

variables=() command=() from=
while read -r word rest; do
  case $word in
    '' | '#'*) ;;
    FROM) from=$rest ;;
    COPY)
      read -r source target <<<"$rest"
      [[ -e $context/$source ]] || fail "$file copies $source, which is not in $context"
      install -D "$context/$source" "$root$target"
      ;;
    ENV) variables+=("$rest") ;;
    EXPOSE) ;;
    ENTRYPOINT) mapfile -t command < <(words "$rest") ;;
    CMD) mapfile -t -O ${#command[@]} command < <(words "$rest") ;;
    *) fail "$file has $word, which this test does not know" ;;
  esac
done <$file
[[ $from == scratch ]] || fail "the image is made from $from"
[[ $(find "$root" -type f | wc -l) == 1 ]] || fail "the image has more than the program"
if readelf -d "$binary" | grep -q NEEDED; then fail "$binary needs libraries"; fi

inside() { env -i "${variables[@]}" chroot "$root" "$@"; }
inside "${command[@]}" >"$root/log" 2>&1 &
router=$!
tries=0
until inside "${command[0]}" status show >"$root/status" 2>/dev/null; do
  kill -0 $router 2>/dev/null || { cat "$root/log" >&2; fail "the router has ended"; }
  ((tries++ < 200)) || { cat "$root/log" >&2; fail "the router does not answer"; }
  sleep 0.05
done
for port in $(sed -n 's/^EXPOSE //p' $file); do
  number=${port%/*} protocol=${port#*/}
  if ! inside "${command[0]}" channel list | grep -qE "^${protocol/tcp/(tcp|ws)}[46]?://.*:$number\$"; then
    fail "the router does not listen on $port"
  fi
done
inside "${command[0]}" route add /image udp4://127.0.0.1:9 >/dev/null
[[ -e $root/var/lib/byname/state.db ]] || fail "there is no state"
kill $router
wait $router || fail "the router ended with an error"
router=
echo "good: $(inside "${command[0]}" --version), $(stat -c %s "$binary") bytes"
