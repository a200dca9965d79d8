#!/usr/bin/env bash
# Builds the RPM package in target/generate-rpm. Needs cargo-generate-rpm (cargo install cargo-generate-rpm --locked).
#
#   packaging/rpm.sh [BINARY [OPTIONS]]    BINARY: a finished build, instead of target/release/byname. OPTIONS: of cargo
#                                          generate-rpm
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
packaging/stage.sh "${@:1:1}"
cargo generate-rpm -p crates/byname "${@:2}"
