#!/usr/bin/env bash
# Puts what packages contain into target/packaging: the release binary without symbols, its symbols beside it, manual
# pages, completions, and a changelog in Debian's form.
#
#   packaging/stage.sh [BINARY]    BINARY: a finished build, instead of target/release/byname
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
binary=${1:-$target/release/byname}
out=target/packaging

[[ -n ${1:-} ]] || cargo build --locked --release -p byname
rm -rf "$out"
mkdir -p "$out"/{man,completions}
# Debuggers find the symbols in the same folder, or below /usr/lib/debug.
objcopy --only-keep-debug "$binary" "$out/byname.debug"
objcopy --strip-all --add-gnu-debuglink="$out/byname.debug" "$binary" "$out/byname"

"$out/byname" man "$out/man"
"$out/byname" completions bash >"$out/completions/byname.bash"
"$out/byname" completions zsh >"$out/completions/_byname"
"$out/byname" completions fish >"$out/completions/byname.fish"

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
date=$(git log -1 --format=%cD 2>/dev/null || date -R)
cat >"$out/changelog" <<END
byname (${BYNAME_DEB_VERSION:-$version-1}) unstable; urgency=medium

  * Release $version. CHANGELOG.md of the sources lists what is new.

 -- The byname developers <byname@named-data.net>  $date
END
ls -l "$out/byname" "$out/byname.debug"
