#!/usr/bin/env bash
# Builds the Debian package in target/debian. Needs cargo-deb (cargo install cargo-deb --locked) and dpkg-dev.
#
#   packaging/deb.sh [BINARY]    BINARY: a finished build, instead of target/release/byname
#
# Environment: BYNAME_DEB_VERSION is the version of the package, instead of that of the sources. With
# BYNAME_DEB_FAST=1, the package is compressed less.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
packaging/stage.sh "$@"
cargo deb --locked --no-build --no-strip -p byname ${BYNAME_DEB_VERSION:+--deb-version "$BYNAME_DEB_VERSION"} \
  ${BYNAME_DEB_FAST:+--fast} --output target/debian/
