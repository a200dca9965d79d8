#!/usr/bin/env bash
# Tests the Debian package on this machine: builds it, checks it with lintian and compares its size with README.md. Then
# installs a version of before, starts the service's command as its user, upgrades while a file is being fetched over and
# over, restarts, removes, and purges. The version of before is the same program, but it calls itself otherwise.
#
#   packaging/test-deb.sh [BINARY]    BINARY: a finished build, instead of target/release/byname
#
# Needs root, cargo-deb, lintian, adduser and dpkg-dev. It changes nothing on this machine: it runs in namespaces of its
# own, and ends with code 77 if it cannot have them. systemd need not run; its unit is verified if systemd-analyze is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/byname}")
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
# An earlier version, as long as this one: the program has it in its bytes.
old_version=$(tr 1-9 0 <<<"$version")
unit=/usr/lib/systemd/system/byname.service
work=$(mktemp -d)
router= server= fetching=

fail() {
  echo "test-deb.sh: $*" >&2
  [[ ! -s $work/log ]] || tail -n 20 "$work/log" >&2
  exit 1
}
say() { echo "-- $*"; }

((EUID == 0)) || fail "needs root"
# Begins again where changes of these folders are lost at the end, and where the network has only a loopback interface.
if [[ -z ${BYNAME_TEST_APART:-} ]]; then
  rmdir "$work"
  BYNAME_TEST_APART=1 exec unshare --mount --net "$0" "$binary"
fi
mount -t tmpfs tmpfs "$work" || exit 77
for folder in etc usr var run; do
  mkdir -p "$work/$folder"/{upper,work}
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$work/$folder/upper,workdir=$work/$folder/work" "/$folder" ||
    exit 77
done
rm -rf /etc/byname /var/lib/byname /var/log/byname /run/nfd
ip link set lo up

clean_up() {
  local pid
  for pid in $fetching $server $router; do kill "$pid" 2>/dev/null || true; done
}
trap clean_up EXIT

# Builds the package of a version from a program.
build() {
  rm -rf target/debian
  BYNAME_DEB_VERSION=$1-1 packaging/deb.sh "$2" >"$work/log" 2>&1 || fail "cannot build the package"
  mv target/debian/byname_"$1"-1_*.deb "$work/$3.deb"
}

# Compares the size of a file with the one in README.md, in MB. A quarter more or less is as good.
check_size() {
  local told=$1 bytes
  bytes=$(stat -c %s "$2")
  [[ -n $told ]] || fail "README.md does not tell the size of $2"
  awk -v told="$told" -v is="$bytes" 'BEGIN { exit !(is > told * 75e4 && is < told * 125e4) }' ||
    fail "README.md says $told MB for $2, which has $bytes bytes"
}

# The version of the program that runs as the service's user.
running_version() {
  local process
  for process in /proc/[0-9]*; do
    if [[ $(stat -c %U "$process" 2>/dev/null) == byname ]]; then
      "$process/exe" --version 2>/dev/null | sed 's/^byname \([^ ]*\).*/\1/' || true
    fi
  done | tail -n 1
}

# Starts the service's command as systemd would, and waits until the router is ready.
start() {
  local command
  command=$(sed -n 's/^ExecStart=//p' $unit)
  install -d -o byname -g byname /run/nfd
  # shellcheck disable=SC2086
  setpriv --reuid byname --regid byname --init-groups --inh-caps=+net_raw --ambient-caps=+net_raw \
    --bounding-set=-all,+net_raw env STATE_DIRECTORY=/var/lib/byname $command >>"$work/log" 2>&1 &
  router=$!
  local tries=0
  until byname status >/dev/null 2>&1; do
    kill -0 $router 2>/dev/null || fail "the router has ended"
    ((tries++ < 200)) || fail "the router does not answer"
    sleep 0.05
  done
}

stop() {
  kill $router
  wait $router || fail "the router ended with an error"
  router=
}

# Publishes a file.
serve() {
  byname put /package/file "$work/file" >/dev/null 2>>"$work/log" &
  server=$!
  until byname route show /package/file >/dev/null 2>&1; do sleep 0.05; done
}

fetch_once() {
  byname get /package/file -o "$work/copy" >/dev/null 2>>"$work/log" && cmp -s "$work/file" "$work/copy"
}

# Fetches the file over and over. Writes a word for each time.
fetch() {
  while :; do
    if fetch_once; then echo whole; else echo failed; fi
    rm -f "$work/copy"
  done >"$work/fetched"
}

# What a purge should have removed.
left_behind() {
  local path
  for path in /etc/byname /var/lib/byname /var/log/byname; do
    [[ ! -e $path ]] || echo "$path"
  done
  ! id byname >/dev/null 2>&1 || echo "the user"
}

say "packages"
LC_ALL=C sed "s/${version//./\\.}/$old_version/g" "$binary" >"$work/before"
chmod 755 "$work/before"
"$work/before" --version | grep -q "^byname $old_version" || fail "no program calls itself $old_version"
BYNAME_DEB_FAST=1 build "$old_version" "$work/before" old
build "$version" "$binary" new
sizes=$(tr '\n' ' ' <README.md | sed -n 's/.*The program has \([0-9.]*\) MB (its symbols, \([0-9.]*\) MB.*the Debian package \([0-9.]*\) MB.*/\1 \2 \3/p')
read -r program_mb symbols_mb package_mb <<<"$sizes" || true
check_size "${program_mb:-}" target/packaging/byname
check_size "${symbols_mb:-}" target/packaging/byname.debug
check_size "${package_mb:-}" "$work/new.deb"

say "lintian"
# The first upload to Debian would close a bug.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$work/new.deb" ||
  fail "lintian finds faults"

say "install"
dpkg --install "$work/old.deb" >>"$work/log" 2>&1 || fail "cannot install the package"
id byname >/dev/null || fail "there is no user"
[[ $(stat -c %U:%a /var/lib/byname) == byname:750 ]] || fail "/var/lib/byname is not the user's"
byname check /etc/byname/byname.toml >/dev/null || fail "the configuration is not good"
[[ -e /usr/share/man/man1/byname-route-add.1.gz ]] || fail "there is no manual page"
[[ -s /usr/share/byname/grafana.json && -s /usr/share/byname/alerts.yml ]] || fail "there is no dashboard, or no alerts"
bash -n /usr/share/bash-completion/completions/byname || fail "the completions are no script"
for shell in zsh:/usr/share/zsh/vendor-completions/_byname fish:/usr/share/fish/vendor_completions.d/byname.fish; do
  if command -v "${shell%%:*}" >/dev/null; then
    "${shell%%:*}" -n "${shell#*:}" || fail "the completions for ${shell%%:*} are no script"
  fi
done
if command -v systemd-analyze >/dev/null; then
  # `man` may be missing, and its pages with it.
  systemd-analyze verify --man=no $unit || fail "the unit is not good"
fi
echo "# mine" >>/etc/byname/byname.toml

say "start"
head -c 3000000 /dev/urandom >"$work/file"
start
[[ $(stat -c %U /proc/$router) == byname ]] || fail "the router is not the user's"
[[ $(running_version) == "$old_version" ]] || fail "the router is not version $old_version"
serve
fetch_once || fail "the file does not come"
fetch &
fetching=$!

say "upgrade"
dpkg --install "$work/new.deb" >>"$work/log" 2>&1 || fail "cannot upgrade the package"
[[ $(running_version) == "$old_version" ]] || fail "the upgrade has stopped the router"
restarted=$(byname restart 2>&1) || fail "no new process takes over: $restarted"
[[ $(running_version) == "$version" ]] || fail "the router is not version $version after its restart"
sleep 1
kill $fetching
wait $fetching 2>/dev/null || true
fetching=
[[ $(grep -c whole "$work/fetched") -gt 0 ]] || fail "the file did not come during the upgrade"
! grep -q failed "$work/fetched" || fail "a fetch failed during the upgrade"
grep -q "# mine" /etc/byname/byname.toml || fail "the upgrade has changed the configuration"
kill $server
wait $server || true
server=
# The process that has taken over is no child of this one. Nobody may ask for its result, so its entry may stay.
router=$(sed -n 's/^process .* to process \([0-9]*\),.*/\1/p' <<<"$restarted")
kill "$router"
tries=0
while [[ -e /proc/$router/exe ]]; do
  ((tries++ < 200)) || fail "the router does not end"
  sleep 0.05
done
start
serve
fetch_once || fail "the file does not come after the upgrade"
grep -q '"command":"rib/register"' /var/log/byname/audit.jsonl || fail "the audit log lacks commands"
kill $server
wait $server || true
server=
stop

say "remove"
dpkg --remove byname >>"$work/log" 2>&1 || fail "cannot remove the package"
[[ ! -e /usr/bin/byname && ! -e $unit ]] || fail "the program is still there"
[[ -e /etc/byname/byname.toml && -d /var/lib/byname ]] || fail "configuration and state are lost"

say "purge"
dpkg --purge byname >>"$work/log" 2>&1 || fail "cannot purge the package"
[[ -z $(left_behind) ]] || fail "still there: $(left_behind)"

say "purge without the package's script, which must be noticed"
dpkg --install "$work/new.deb" >>"$work/log" 2>&1 || fail "cannot install the package again"
rm /var/lib/dpkg/info/byname.postrm
dpkg --purge byname >>"$work/log" 2>&1 || fail "cannot purge the package again"
[[ $(left_behind | wc -l) == 3 ]] || fail "the checks of the purge notice only: $(left_behind)"
say "good: byname $version"
