#!/usr/bin/env bash
# Tests the RPM package on this machine: builds it, and looks at its files, its scripts and what it needs. Then installs a
# version of before, starts the service's command as its user, upgrades while a file is being fetched over and over,
# restarts, and removes. The version of before is the same program, but it calls itself otherwise.
#
#   packaging/test-rpm.sh [BINARY]    BINARY: a finished build, instead of target/release/byname
#
# Needs root, cargo-generate-rpm, rpm and useradd. It changes nothing on this machine, see try-out.sh. The machine need not
# have a system of RPM packages: nothing checks that the libraries are there that the package needs, and a script that notes
# its arguments takes the place of systemctl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
binary=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/byname}")
source packaging/try-out.sh

# Builds the package of a version from a program. It is not compressed, which would take longer than all the rest.
build() {
  rm -rf target/generate-rpm
  packaging/rpm.sh "$2" --payload-compress none --set-metadata "version = \"$1\"" >"$work/log" 2>&1 ||
    fail "cannot build the package"
  mv target/generate-rpm/byname-"$1"-1.*.rpm "$work/$3.rpm"
}

# A database of its own, in which no package has the libraries. Debian's rpm has to be forced.
in_debian=()
if rpm --help | grep -q -- --force-debian; then in_debian=(--force-debian); fi
change() { rpm --dbpath "$work/rpm" --nodeps ${in_debian[@]+"${in_debian[@]}"} "$@" >>"$work/log" 2>&1; }

# The commands of systemctl since the last time.
told_systemd() {
  cat "$work/systemctl"
  : >"$work/systemctl"
}

say "packages"
make_program_of_before
build "$old_version" "$work/before" old
build "$version" "$binary" new

say "contents"
package=$work/new.rpm
files=$(rpm -qpl "$package")
for wanted in /usr/bin/byname /etc/byname/byname.toml /usr/lib/systemd/system/byname.service \
  /usr/share/man/man1/byname-route-add.1 /usr/share/bash-completion/completions/byname \
  /usr/share/zsh/site-functions/_byname /usr/share/fish/vendor_completions.d/byname.fish \
  /usr/share/byname/grafana.json /usr/share/byname/alerts.yml /usr/share/licenses/byname/copyright; do
  grep -qx "$wanted" <<<"$files" || fail "the package has no $wanted"
done
[[ $(rpm -qp --queryformat '[%{FILENAMES} %{FILEFLAGS:fflags}\n]' "$package" | sed -n 's/^.*byname.toml //p') == cn ]] ||
  fail "an upgrade would replace the configuration"
[[ $(rpm -qp --queryformat '%{VERSION}' "$package") == "$version" ]] || fail "the package is not version $version"
needs=$(rpm -qp --requires "$package")
for needed in 'libc\.so' 'useradd'; do
  grep -q "$needed" <<<"$needs" || fail "the package does not say that it needs $needed"
done

say "install"
: >"$work/systemctl"
rm -f /usr/bin/systemctl
printf '#!/bin/sh\necho "$*" >>%s/systemctl\n' "$work" >/usr/bin/systemctl
chmod 755 /usr/bin/systemctl
userdel byname 2>/dev/null || true
change --install "$work/old.rpm" || fail "cannot install the package"
id byname >/dev/null || fail "there is no user"
[[ $(told_systemd) == daemon-reload ]] || fail "systemd does not look for the unit"
check_installed_files /usr/share/man/man1/byname-route-add.1 /usr/share/zsh/site-functions/_byname
# As systemd does before it starts the service.
install -d -o byname -g byname -m 750 /var/lib/byname /var/log/byname
echo "# mine" >>/etc/byname/byname.toml

say "start"
try_the_version_of_before

say "upgrade"
change --upgrade "$work/new.rpm" || fail "cannot upgrade the package"
told=$(told_systemd)
[[ $told == $'daemon-reload\nreload-or-try-restart byname\ntry-restart byname-agent' ]] || fail "systemd is told: $told"
[[ $(rpm --dbpath "$work/rpm" --query byname) == "byname-$version-1.$(uname -m)" ]] || fail "not one version is installed"
try_the_upgraded_version

say "remove"
change --erase byname || fail "cannot remove the package"
told=$(told_systemd)
[[ $told == "disable --now byname byname-agent" ]] || fail "systemd is told: $told"
[[ ! -e /usr/bin/byname && ! -e $unit ]] || fail "the program is still there"
[[ -e /etc/byname/byname.toml.rpmsave && -d /var/lib/byname ]] || fail "the changed configuration or the state is lost"
say "good: byname $version"
