#!/usr/bin/env bash
# Installs what the tests need and runs them all. Needs Rust, Python 3.11 or newer, and Node 20 or newer.
#
#   ./test.sh                     everything
#   ./test.sh clippy unit         some parts only: setup fmt clippy doc deny unit dpdk models clients
#   ./test.sh --long              with the scenarios that take a minute or more
#   ./test.sh clients -- -k nack  what follows `--` goes to pytest
#
# Environment: BYNAME_BIN tests that binary and builds none; PYTHON names the interpreter.
# BYNAME_TEST_OPERATIONS=50000000 has prefix engines checked for so many operations, from BYNAME_TEST_SEED on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

parts=()
pytest_args=()
while (($#)); do
  case $1 in
    setup | fmt | clippy | doc | deny | unit | dpdk | models | clients) parts+=("$1") ;;
    --long) pytest_args+=(--long) ;;
    --) shift; pytest_args+=("$@"); break ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit ;;
    *) echo "test.sh: unknown part '$1'; see ./test.sh --help" >&2; exit 2 ;;
  esac
  shift
done
((${#parts[@]})) || parts=(fmt clippy doc deny unit dpdk models clients)

say() { printf '\n== %s\n' "$*"; }
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

# Makes .venv, by whichever of venv, virtualenv and a plain pip this Python has.
install_python_packages() {
  local python requirements=tests/clients/requirements.txt
  cmp -s "$requirements" .venv/installed.txt && return
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
  cp "$requirements" .venv/installed.txt
}

install_node_packages() {
  local folder=tests/clients
  cmp -s $folder/package-lock.json $folder/node_modules/.installed.json && return
  if ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then
    echo "test.sh: the client tests need Node 20 or newer" >&2
    return 1
  fi
  npm ci --prefix $folder --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null
  cp $folder/package-lock.json $folder/node_modules/.installed.json
}

setup() {
  install_python_packages
  install_node_packages
}

# Packages come over the network while the compiler has the cores.
setup_job=
if wanted setup || wanted clients; then
  setup_log=$(mktemp)
  setup >"$setup_log" 2>&1 &
  setup_job=$!
  trap 'kill "$setup_job" 2>/dev/null || true; rm -f "$setup_log"' EXIT
fi

if wanted fmt; then
  say "cargo fmt"
  cargo fmt --all --check
fi
if wanted clippy; then
  say "cargo clippy"
  cargo clippy --locked --workspace --all-targets -- -D warnings
fi
if wanted doc; then
  say "cargo doc"
  RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps
fi
if wanted deny; then
  say "cargo deny"
  if cargo deny --version >/dev/null 2>&1; then
    cargo deny --locked check --hide-inclusion-graph licenses bans sources
  else
    echo "skipped: cargo-deny is not installed (cargo install cargo-deny --locked)"
  fi
fi
if wanted unit; then
  say "cargo test"
  cargo test --locked --workspace
fi
if wanted dpdk; then
  say "the feature dpdk"
  if pkg-config --exists "libdpdk >= 22.11" 2>/dev/null; then
    cargo clippy --locked -p byname-face -p byname -p byname-lab --features byname/dpdk,byname-lab/dpdk --all-targets -- \
      -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --locked -p byname-face --features dpdk --no-deps
    cargo test --locked -p byname-face --features dpdk --lib ethernet
    cargo test --locked -p byname --features dpdk --test ethernet
  else
    echo "skipped: DPDK 22.11 or newer is not installed (Debian: apt install libdpdk-dev pkg-config)"
  fi
fi
if wanted models; then
  say "loom: what threads share, under every order of up to two preemptions"
  # A folder of its own, or each change of flags would build everything anew.
  loom() { CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/loom" RUSTFLAGS="--cfg loom" cargo test --locked "$@"; }
  export LOOM_MAX_PREEMPTIONS=2
  loom -p byname-lookup --lib --test "loom*"
  loom -p byname-forward --lib models
fi
if wanted clients && [[ -z ${BYNAME_BIN:-} ]]; then
  say "cargo build --release"
  cargo build --locked --release -p byname
  export BYNAME_BIN="${CARGO_TARGET_DIR:-$PWD/target}/release/byname"
fi
if [[ -n $setup_job ]]; then
  say "Python and Node packages"
  wait "$setup_job" || { cat "$setup_log" >&2; exit 1; }
  echo "in .venv and tests/clients/node_modules"
fi
if wanted clients; then
  say "client tests"
  python="$PWD/.venv/bin/python"
  cd tests/clients
  "$python" -m pytest ${pytest_args[@]+"${pytest_args[@]}"}
fi
