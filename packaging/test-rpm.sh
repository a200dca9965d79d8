#!/usr/bin/env bash
# Tests the RPM package: builds it, and looks at its files, its scripts and what it needs.
#
#   packaging/test-rpm.sh [BINARY]    BINARY: a finished build, instead of target/release/byname
#
# Needs cargo-generate-rpm and rpm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "test-rpm.sh: $*" >&2
  exit 1
}

rm -rf target/generate-rpm
packaging/rpm.sh "$@" >/dev/null
packages=(target/generate-rpm/byname-*.rpm)
[[ ${#packages[@]} == 1 && -e ${packages[0]} ]] || fail "there is not one package"
package=${packages[0]}
files=$(rpm -qpl "$package")
for wanted in /usr/bin/byname /etc/byname/byname.toml /usr/lib/systemd/system/byname.service \
  /usr/share/man/man1/byname-route-add.1 /usr/share/bash-completion/completions/byname \
  /usr/share/zsh/site-functions/_byname /usr/share/fish/vendor_completions.d/byname.fish \
  /usr/share/byname/grafana.json /usr/share/byname/alerts.yml; do
  grep -qx "$wanted" <<<"$files" || fail "$package has no $wanted"
done
[[ $(rpm -qp --queryformat '[%{FILENAMES} %{FILEFLAGS:fflags}\n]' "$package" | sed -n 's/^.*byname.toml //p') == cn ]] ||
  fail "an upgrade would replace the configuration"
rpm -qp --scripts "$package" | grep -q "useradd .* byname" || fail "nobody makes the user"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
[[ $(rpm -qp --queryformat '%{VERSION}' "$package") == "$version" ]] || fail "$package is not version $version"
rpm -qp --requires "$package" | grep -q '^libc\.so' || fail "$package does not say which libraries it needs"
echo "good: $package"
