#!/usr/bin/env bash
# Tests the static binary, and the image that Containerfile describes, without an engine for containers: makes the image's
# files as Containerfile says, and runs its command in a root folder that has nothing else, as the first process of a
# namespace of processes. An engine would also mount /proc, /sys and /dev.
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
router= server=
trap 'for pid in $server $router; do kill "$pid" 2>/dev/null || true; done; umount --lazy "$root"; rmdir "$root"' EXIT
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

# The shell finds the commands: nothing but the variables of the image is in the environment.
chroot=$(command -v chroot) unshare=$(command -v unshare)
inside() { env -i "${variables[@]}" "$chroot" "$root" "$@"; }
env -i "${variables[@]}" "$unshare" --pid --fork "$chroot" "$root" "${command[@]}" >"$root/log" 2>&1 &
job=$!
until router=$(cat /proc/$job/task/$job/children 2>/dev/null) && [[ -n $router ]]; do
  kill -0 $job 2>/dev/null || { cat "$root/log" >&2; fail "the router does not start"; }
  sleep 0.01
done
tries=0
until inside "${command[0]}" status show >"$root/status" 2>/dev/null; do
  kill -0 $job 2>/dev/null || { cat "$root/log" >&2; fail "the router has ended"; }
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
inside "${command[0]}" ping-server /pong >/dev/null 2>&1 &
server=$!
tries=0
until inside "${command[0]}" ping /pong -c 1 --timeout 500 >/dev/null 2>&1; do
  ((tries++ < 100)) || fail "no answer comes through the router"
done
kill $server
wait $server || true
server=
if restarted=$(inside "${command[0]}" restart 2>&1); then fail "the first process of a container has ended"; fi
grep -q "first process" <<<"$restarted" || fail "a restart is refused without its reason: $restarted"
kill $router
wait $job || fail "the router ended with an error"
router=
echo "good: $(inside "${command[0]}" --version), $(stat -c %s "$binary") bytes"
