#!/usr/bin/env bash
# Installs the tests' dependencies and runs all tests. Needs Rust, Python 3.11 or newer, and Node 20 or newer.
# At its end, prints which tests were skipped, and why, and which tests needed a second attempt.
#
#   ./test.sh                     all parts
#   ./test.sh clippy unit         these parts only: setup fmt clippy doc unit models miri tsan guide clients python
#                                 dashboard deny semver package
#   ./test.sh static              builds the static binary, and tests it and the image: a second release build, which
#                                 is no part of all
#   ./test.sh --long              also client tests that take a minute or more
#   ./test.sh --retry             gives every test that fails a second attempt; tests of speed or memory have one anyway
#   ./test.sh clients -- -k nack  passes arguments after `--` to pytest
#
# Environment: BYNAME_BIN is the binary for tests with clients and the package, instead of a new build. PYTHON is the interpreter.
# CHROMIUM is the browser for tests of pages, and SCREENSHOTS the folder for what it saw.
# BYNAME_SEMVER_BASELINE is the revision that public interfaces are compared with, the last release if it is not set.
# BYNAME_TEST_OPERATIONS is the number of operations that check lookup engines, BYNAME_TEST_SEED their first seed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

parts=() pytest_args=() retry= all_clients=1
while (($#)); do
  case $1 in
    setup | fmt | clippy | doc | deny | unit | models | miri | tsan | guide | clients | python | dashboard | semver | package | static) parts+=("$1") ;;
    --long) pytest_args+=(--long) ;;
    --retry) pytest_args+=(--retry); retry=1 ;;
    --) shift; pytest_args+=("$@"); all_clients=; break ;;
    -h | --help) sed -n '2,17s/^# \{0,1\}//p' "$0"; exit ;;
    *) echo "test.sh: unknown part '$1'; see ./test.sh --help" >&2; exit 2 ;;
  esac
  shift
done
((${#parts[@]})) || parts=(fmt clippy doc unit models miri tsan guide clients python dashboard deny semver package)

# The headings of parts say when each began, in minutes and seconds.
say() { printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }
setup_job= setup_log=$(mktemp) log=$(mktemp) skipped=$(mktemp)
release_job= release_log=$(mktemp) wheel_job= wheel_log=$(mktemp) beside_job= beside_log=$(mktemp)
trap 'kill $setup_job $release_job $wheel_job $beside_job 2>/dev/null || true
  rm -f "$setup_log" "$release_log" "$wheel_log" "$beside_log" "$log" "$skipped"' EXIT

# Runs a command of long computations in the time that the parts before it leave to the processors: tests often wait.
beside() { nice -n 19 "$@"; }

# Waits for a job in the background, and shows its output if it fails.
finish() {
  wait "$1" || { cat "$2" >&2; exit 1; }
}

skip() {
  echo "skipped: $*"
  echo "$*" >>"$skipped"
}

# Runs cargo test and collects the lines `skipped: REASON` that tests print. Only --show-output shows these lines; awk
# hides the rest of its output.
cargo_test_once() {
  cargo test --locked "$@" -- --show-output 2>&1 | tee "$log" |
    awk '/^successes:$/ { hidden = 1 } /^failures:$/ || /^test result:/ { hidden = 0 } !hidden { print; fflush() }'
}

# Tests the workspace. With --retry, runs each test binary that failed once more, with one test at a time.
test_workspace() {
  local arguments target targets=()
  if ! cargo_test_once ${retry:+--no-fail-fast} --workspace "$@"; then
    mapfile -t targets < <(sed -n 's/^    `\(-p .*\)`$/\1/p' "$log")
    if [[ -z $retry ]] || ((${#targets[@]} == 0)); then return 1; fi
  fi
  sed -n 's/^ *skipped: //p' "$log" >>"$skipped"
  for target in ${targets[@]+"${targets[@]}"}; do
    say "cargo test $target, at the second attempt"
    read -ra arguments <<<"$target"
    # A package alone has other features than in the workspace, and would be compiled again.
    case ${arguments[2]} in --test | --bin) arguments=(--workspace "$@" "${arguments[@]:2}") ;; esac
    cargo test --locked "${arguments[@]}" -- --test-threads=1
    echo "not skipped: cargo test $target, at the second attempt" >>"$skipped"
  done
}
wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "test.sh: the client tests need Python 3.11 or newer, as python-ndn does (set PYTHON)" >&2
  return 1
}

# Makes .venv with venv, virtualenv or plain pip, whichever this Python has.
install_python_packages() {
  local python requirements
  requirements=$(mktemp)
  cat tests/clients/requirements.txt docs/requirements.txt >"$requirements"
  if cmp -s "$requirements" .venv/installed.txt; then rm "$requirements"; return; fi
  python=$(find_python)
  rm -rf .venv
  if "$python" -m venv .venv 2>/dev/null || "$python" -m virtualenv -q .venv 2>/dev/null; then
    .venv/bin/python -m pip install -q --disable-pip-version-check -r "$requirements"
  else
    rm -rf .venv
    if ! "$python" -m pip --version >/dev/null 2>&1; then
      echo "test.sh: this Python has neither venv nor pip; on Debian: apt install python3-venv" >&2
      return 1
    fi
    "$python" -m pip install -q --disable-pip-version-check --target .venv/packages -r "$requirements"
    mkdir -p .venv/bin
    printf '#!/bin/sh\nPYTHONPATH="%s/.venv/packages" exec "%s" "$@"\n' "$PWD" "$python" >.venv/bin/python
    chmod +x .venv/bin/python
  fi
  mv "$requirements" .venv/installed.txt
}

install_node_packages() {
  local folder=$1
  cmp -s $folder/package-lock.json $folder/node_modules/.installed.json && return
  if ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then
    echo "test.sh: $folder needs Node 20 or newer" >&2
    return 1
  fi
  npm ci --prefix $folder --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null
  cp $folder/package-lock.json $folder/node_modules/.installed.json
}

setup() {
  if wanted setup || wanted clients; then
    install_python_packages
    install_node_packages tests/clients
  fi
  if wanted setup || wanted dashboard; then install_node_packages dashboard; fi
}

# Builds the wheel, and a new virtual environment for its tests, which has nothing else of ours. Leaves no wheel where that
# cannot be had.
wheel_folder="${CARGO_TARGET_DIR:-$PWD/target}/python"
build_wheel() {
  local python
  python=$(find_python)
  rm -rf "$wheel_folder"
  mkdir -p "$wheel_folder"
  if ! { "$python" -m venv "$wheel_folder/venv" || "$python" -m virtualenv -q "$wheel_folder/venv"; }; then
    skip "the Python package is not tested: this Python has neither venv nor virtualenv (Debian: apt install python3-venv)"
    return
  fi
  python=$wheel_folder/venv/bin/python
  if ! "$python" -m pip install -q --disable-pip-version-check -r crates/python/tests/requirements.txt; then
    skip "the Python package is not tested: pip cannot install what crates/python/tests/requirements.txt names"
    return
  fi
  VIRTUAL_ENV=$wheel_folder/venv beside "$python" -m maturin build --locked --release --interpreter "$python" \
    --manifest-path crates/python/Cargo.toml --out "$wheel_folder/wheels"
}

test_python_package() {
  local code=0 python=$wheel_folder/venv/bin/python
  finish $wheel_job "$wheel_log"
  cat "$wheel_log"
  compgen -G "$wheel_folder/wheels/byname-*.whl" >/dev/null || return 0
  "$python" -m pip install -q --disable-pip-version-check --no-deps "$wheel_folder"/wheels/byname-*.whl
  "$python" -m pytest crates/python/tests ${retry:+--retry} 2>&1 | tee "$log" || code=$?
  sed -n -e 's/^SKIPPED //p' -e 's/^\t\(.*\) passed on attempt 2!$/not skipped: \1, at the second attempt/p' "$log" >>"$skipped"
  return $code
}

# The pages in the program must be what their sources build.
compare_dashboard() {
  local built=dashboard/node_modules/.built
  (cd dashboard && npx --no-install tsc --noEmit && npx --no-install vite build --logLevel warn --outDir "$OLDPWD/$built")
  if ! diff -r "$built" crates/web/assets; then
    echo "test.sh: crates/web/assets is not what the folder dashboard builds; run \`npm run build\` there" >&2
    return 1
  fi
}

# A separate folder: otherwise each change of flags would rebuild everything.
# One test at a time: threads that make and free stacks wait for each other in the kernel.
loom() {
  CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/loom" RUSTFLAGS="--cfg loom" \
    beside cargo test --config profile.dev.package.loom.opt-level=3 --locked "$@" --test-threads=1
}
run_models() {
  export LOOM_MAX_PREEMPTIONS=2
  loom -p byname-lookup --lib --test "loom*" -- && loom -p byname-forward --lib models --
}

# The tests of unsafe code and of what threads share that Miri ends in minutes.
miri_tests=(memory:: publish:: handle:: bucket::tests::a_)
run_miri() {
  if ! cargo +nightly miri --version >/dev/null 2>&1; then
    skip "Miri is not installed (rustup toolchain install nightly --component miri,rust-src)"
    return
  fi
  # Tests read files and the clock.
  MIRIFLAGS=-Zmiri-disable-isolation beside cargo +nightly miri test --locked -p byname-lookup --lib -- "${miri_tests[@]}"
}

# The tests in which threads share tables, under ThreadSanitizer. The standard library is built with it, too.
tsan_tests=(publish:: handle:: readers_ tables_built_on_several changes_during_a_merge)
run_tsan() {
  local target
  target=$(rustc -vV | sed -n 's/^host: //p')
  if [[ $target != *-linux-gnu ]] || [[ ! -d $(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src ]]; then
    skip "ThreadSanitizer needs a nightly Rust with its sources, on Linux (rustup toolchain install nightly --component rust-src)"
    return
  fi
  # Only code for a named target is built so. Others, such as build scripts, are not.
  RUSTFLAGS=-Zsanitizer=thread beside cargo +nightly test --locked -Zbuild-std --target "$target" -p byname-lookup --lib -- \
    "${tsan_tests[@]}"
}

# Whether the crates that programs use are compatible with their last release: the commit that gave CHANGELOG.md this version.
# Interfaces that were not published may change. BYNAME_SEMVER_BASELINE compares all, with any revision.
run_semver() {
  local version baseline crate crates=()
  if ! cargo semver-checks --version >/dev/null 2>&1; then
    skip "cargo-semver-checks is not installed (cargo install cargo-semver-checks --locked, which takes long)"
    return
  fi
  if [[ -n ${BYNAME_SEMVER_BASELINE:-} ]]; then
    cargo semver-checks --baseline-rev "$BYNAME_SEMVER_BASELINE" -p byname-lookup -p byname-client
    return
  fi
  version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
  baseline=$(git log --format=%H -1 -S"## [$version]" -- CHANGELOG.md 2>/dev/null || true)
  if [[ -z $baseline ]]; then
    skip "public interfaces are compared with no release: this history does not have that of $version"
    return
  fi
  for crate in lookup client; do
    if git show "$baseline:crates/$crate/Cargo.toml" 2>/dev/null | grep -qx 'publish = true'; then
      crates+=(-p "byname-$crate")
    else
      skip "the interface of byname-$crate is compared with no release: $version did not publish it"
    fi
  done
  if ((${#crates[@]})); then cargo semver-checks --baseline-rev "$baseline" "${crates[@]}"; fi
}

# Code is checked with everything that this machine allows. The client tests have the program as it ships.
features=byname/opentelemetry
if pkg-config --exists "libdpdk >= 22.11" 2>/dev/null; then
  features+=,byname/dpdk,byname-lab/dpdk
elif wanted unit; then
  skip "DPDK 22.11 or newer is not installed (Debian: apt install libdpdk-dev pkg-config)"
fi

if { wanted clients || wanted python || wanted dashboard || wanted package; } && [[ -z ${BYNAME_BIN:-} ]]; then
  beside cargo build --locked --release -p byname >"$release_log" 2>&1 &
  release_job=$!
  export BYNAME_BIN="${CARGO_TARGET_DIR:-$PWD/target}/release/byname"
fi
# The wheel waits for that build, which has the same folder.
if wanted python; then
  build_wheel >"$wheel_log" 2>&1 &
  wheel_job=$!
fi
# Packages download while the compiler uses the cores.
if wanted setup || wanted guide || wanted clients || wanted dashboard; then
  setup >"$setup_log" 2>&1 &
  setup_job=$!
fi

if wanted fmt; then
  say "cargo fmt"
  cargo fmt --all --check
fi
if wanted clippy; then
  say "cargo clippy"
  cargo clippy --locked --workspace --all-targets --features "$features" -- -D warnings
  # As it ships: without DPDK and OpenTelemetry, and without the feature `lab`, which the rest of the workspace turns on.
  cargo clippy --locked -p byname -- -D warnings
fi
if wanted doc; then
  say "cargo doc"
  RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --features "$features"
  RUSTDOCFLAGS="-D warnings" cargo doc --locked -p byname-lookup -p byname-forward --no-deps
fi
if wanted unit; then
  say "cargo test"
  test_workspace --features "$features"
fi
if [[ -n $release_job ]]; then
  say "cargo build --release"
  finish $release_job "$release_log"
fi
# .ci/run builds commands of cargo, which the last parts need.
wait_for_tools() {
  if [[ -n ${BYNAME_TOOLS_JOB:-} ]]; then tail --pid="$BYNAME_TOOLS_JOB" -f /dev/null; fi
}
# Runs a test in namespaces, in the time that others leave. It ends with code 77 if it cannot have them.
test_apart() {
  local code=0
  beside "$@" || code=$?
  if ((code == 77)); then skip "$1 is not run: this system allows no overlays"; else return $code; fi
}
run_packages() {
  if ((EUID != 0)) || ! unshare --mount --net true 2>/dev/null; then
    skip "packages are not tested: that needs root, and a system that gives namespaces"
    return
  fi
  wait_for_tools
  say "Debian package"
  if { cargo deb --version && lintian --version && adduser --version; } >/dev/null 2>&1; then
    test_apart packaging/test-deb.sh "$BYNAME_BIN" || return
  else
    skip "cargo-deb, lintian or adduser is not installed (cargo install cargo-deb --locked; apt install lintian adduser)"
  fi
  say "RPM package"
  if { cargo generate-rpm --version && rpm --version; } >/dev/null 2>&1; then
    test_apart packaging/test-rpm.sh "$BYNAME_BIN" || return
  else
    skip "cargo-generate-rpm or rpm is not installed (cargo install cargo-generate-rpm --locked; apt install rpm)"
  fi
}
# Parts that compute for long, and measure nothing.
run_beside() {
  if wanted package; then run_packages || return; fi
  if wanted models; then
    say "loom: shared data, under every schedule with up to two preemptions"
    run_models || return
  fi
  if wanted miri; then
    say "Miri: undefined behaviour in tests of byname-lookup"
    run_miri || return
  fi
  if wanted tsan; then
    say "ThreadSanitizer: readers beside a writer in byname-lookup"
    run_tsan || return
  fi
}
if wanted package || wanted models || wanted miri || wanted tsan; then
  # Other tests wait for most of their time.
  if wanted clients || wanted python || wanted dashboard; then
    run_beside >"$beside_log" 2>&1 &
    beside_job=$!
  else
    run_beside
  fi
fi
if [[ -n $setup_job ]]; then
  say "Python and Node packages"
  finish $setup_job "$setup_log"
  echo "in .venv, tests/clients/node_modules and dashboard/node_modules"
fi
if wanted guide; then
  say "the guide"
  NO_MKDOCS_2_WARNING=1 "$PWD/.venv/bin/python" -m mkdocs build --strict
  echo "in target/guide"
fi
if wanted clients; then
  say "client tests"
  python="$PWD/.venv/bin/python"
  # Most tests wait for most of their time. Those that measure have the machine for themselves.
  test_clients() {
    local code=0
    (cd tests/clients && "$python" -m pytest "$@" ${pytest_args[@]+"${pytest_args[@]}"}) 2>&1 | tee -a "$log" || code=$?
    if ((code == 5)); then return; fi # the arguments choose none of these tests
    chosen=1
    ((code == 0))
  }
  chosen=
  : >"$log"
  test_clients -m "not measures" -n 3
  test_clients -m measures
  if [[ -n $all_clients ]]; then
    # A few more with four packet threads, which ndnd beside us must bear, too.
    test_clients -n 3 --threads 4 test_fetch.py test_nack.py test_routing.py -m "not measures and not long" -k "not late"
  fi
  [[ -n $chosen ]] || { echo "test.sh: the arguments for pytest choose no test" >&2; exit 1; }
  sed -n -e 's/^SKIPPED //p' -e 's/^\t\(.*\) passed on attempt 2!$/not skipped: \1, at the second attempt/p' "$log" \
    >>"$skipped"
fi
if wanted python; then
  say "the Python package"
  test_python_package
fi
if wanted dashboard; then
  say "dashboard"
  compare_dashboard
  # Pages wait for a browser, which waits for its turn: a slow machine may need a second attempt.
  try_dashboard() { (cd dashboard && npm test --silent) 2>&1 | tee "$log"; }
  if ! try_dashboard; then
    if [[ -z $retry ]]; then exit 1; fi
    echo "not skipped: the dashboard's pages, at the second attempt" >>"$skipped"
    try_dashboard
  fi
  sed -n 's/^skipped: //p' "$log" >>"$skipped"
fi
if wanted deny; then
  wait_for_tools
  [[ -z ${BYNAME_TOOLS_LOG:-} ]] || cat "$BYNAME_TOOLS_LOG"
  say "cargo deny"
  if cargo deny --version >/dev/null 2>&1; then
    cargo deny --locked check --hide-inclusion-graph licenses bans sources
  else
    skip "cargo-deny is not installed (cargo install cargo-deny --locked)"
  fi
fi
if wanted semver; then
  say "cargo semver-checks"
  run_semver
fi
if wanted static; then
  say "static binary, and the image"
  packaging/static.sh
  if ((EUID == 0)); then test_apart packaging/test-image.sh; else skip "the image is not tested: that needs root"; fi
elif wanted package; then
  skip "the static binary and the image are not tested: ./test.sh static does it, with a second release build"
fi
if [[ -n $beside_job ]]; then
  say "packages, loom, Miri and ThreadSanitizer, which ran beside the parts before"
  finish $beside_job "$beside_log"
  grep -E '^(test result:|==|--|skipped)' "$beside_log"
fi
say "skipped"
if [[ -s $skipped ]]; then sort "$skipped" | uniq -c; else echo "nothing"; fi
