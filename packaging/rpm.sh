#!/usr/bin/env bash
# Builds the RPM package in target/generate-rpm. Needs cargo-generate-rpm (cargo install cargo-generate-rpm --locked).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
packaging/stage.sh "$@"
cargo generate-rpm -p crates/byname
