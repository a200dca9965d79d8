#!/usr/bin/env bash
# Builds a static binary with musl, target/packaging/static/byname: it needs no library, and has everything but DPDK.
# Needs the standard library for musl (rustup target add x86_64-unknown-linux-musl) and musl-gcc (Debian: musl-tools).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
triple=$(uname -m)-unknown-linux-musl
if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$triple ]]; then
  echo "static.sh: this Rust has no standard library for $triple: rustup target add $triple" >&2
  exit 1
fi
command -v musl-gcc >/dev/null || { echo "static.sh: no musl-gcc; on Debian: apt install musl-tools" >&2; exit 1; }
export "CC_${triple//-/_}=musl-gcc"
cargo build --locked --release -p byname --target "$triple"
out=target/packaging/static
mkdir -p "$out"
objcopy --strip-all "${CARGO_TARGET_DIR:-target}/$triple/release/byname" "$out/byname"
if readelf -d "$out/byname" | grep -q NEEDED; then
  echo "static.sh: $out/byname needs libraries" >&2
  exit 1
fi
ls -l "$out/byname"
