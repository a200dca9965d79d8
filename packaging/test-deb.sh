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
source packaging/try-out.sh

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

# What a purge should have removed.
left_behind() {
  local path
  for path in /etc/byname /var/lib/byname /var/log/byname; do
    [[ ! -e $path ]] || echo "$path"
  done
  ! id byname >/dev/null 2>&1 || echo "the user"
}

say "packages"
make_program_of_before
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
check_installed_files /usr/share/man/man1/byname-route-add.1.gz /usr/share/zsh/vendor-completions/_byname
echo "# mine" >>/etc/byname/byname.toml

say "start"
try_the_version_of_before

say "upgrade"
dpkg --install "$work/new.deb" >>"$work/log" 2>&1 || fail "cannot upgrade the package"
try_the_upgraded_version

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
