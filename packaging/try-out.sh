# What the tests of both packages share: namespaces in which they change nothing on this machine, and trying out what a
# package has installed. They set `binary` to the program, and source this file:
#
#   source packaging/try-out.sh
#
# It begins the script again in these namespaces, or ends it with code 77.

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
# An earlier version, as long as this one: the program has it in its bytes.
old_version=$(tr 1-9 0 <<<"$version")
unit=/usr/lib/systemd/system/byname.service
agent_unit=/usr/lib/systemd/system/byname-agent.service
work=$(mktemp -d)
router= server= fetching=

fail() {
  echo "$(basename "$0"): $*" >&2
  [[ ! -s $work/log ]] || tail -n 20 "$work/log" >&2
  exit 1
}
say() { echo "-- $*"; }

((EUID == 0)) || fail "needs root"
# Begins again where changes of these folders are lost at the end, and where the network has only a loopback interface.
if [[ -z ${BYNAME_TEST_APART:-} ]]; then
  rmdir "$work"
  BYNAME_TEST_APART=1 exec unshare --mount --net "$0" "$binary"
fi
mount -t tmpfs tmpfs "$work" || exit 77
for folder in etc usr var run; do
  mkdir -p "$work/$folder"/{upper,work}
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$work/$folder/upper,workdir=$work/$folder/work" "/$folder" ||
    exit 77
done
rm -rf /etc/byname /var/lib/byname /var/log/byname /run/nfd
ip link set lo up

clean_up() {
  local pid
  for pid in $fetching $server $router; do kill "$pid" 2>/dev/null || true; done
  umount --lazy "$work"
  rmdir "$work"
}
trap clean_up EXIT

# Makes the same program with another version.
make_program_of_before() {
  LC_ALL=C sed "s/${version//./\\.}/$old_version/g" "$binary" >"$work/before"
  chmod 755 "$work/before"
  "$work/before" --version | grep -q "^byname $old_version" || fail "no program calls itself $old_version"
}

# Whether what a package has installed is good. Takes the paths of a manual page and of the completions for zsh.
check_installed_files() {
  local shell
  byname check /etc/byname/byname.toml >/dev/null || fail "the configuration is not good"
  [[ -e $agent_unit && ! -e /etc/byname/agent.env ]] || fail "the agent's unit is not there, or it could start by itself"
  [[ -e $1 ]] || fail "there is no manual page"
  [[ -s /usr/share/byname/grafana.json && -s /usr/share/byname/alerts.yml ]] || fail "there is no dashboard, or no alerts"
  bash -n /usr/share/bash-completion/completions/byname || fail "the completions are no script"
  for shell in zsh:"$2" fish:/usr/share/fish/vendor_completions.d/byname.fish; do
    if command -v "${shell%%:*}" >/dev/null; then
      "${shell%%:*}" -n "${shell#*:}" || fail "the completions for ${shell%%:*} are no script"
    fi
  done
  if command -v systemd-analyze >/dev/null; then
    # `man` may be missing, and its pages with it.
    systemd-analyze verify --man=no $unit "$agent_unit" || fail "a unit is not good"
  fi
}

# The version of the program that runs as the service's user.
running_version() {
  local process
  for process in /proc/[0-9]*; do
    if [[ $(stat -c %U "$process" 2>/dev/null) == byname ]]; then
      "$process/exe" --version 2>/dev/null | sed 's/^byname \([^ ]*\).*/\1/' || true
    fi
  done | tail -n 1
}

# Starts the service's command as systemd would, and waits until the router is ready.
start() {
  local command
  command=$(sed -n 's/^ExecStart=//p' $unit)
  install -d -o byname -g byname /run/nfd
  # shellcheck disable=SC2086
  setpriv --reuid byname --regid byname --init-groups --inh-caps=+net_raw --ambient-caps=+net_raw \
    --bounding-set=-all,+net_raw env STATE_DIRECTORY=/var/lib/byname $command >>"$work/log" 2>&1 &
  router=$!
  local tries=0
  until byname status >/dev/null 2>&1; do
    kill -0 $router 2>/dev/null || fail "the router has ended"
    ((tries++ < 200)) || fail "the router does not answer"
    sleep 0.05
  done
}

stop() {
  kill $router
  wait $router || fail "the router ended with an error"
  router=
}

# Publishes a file.
serve() {
  byname put /package/file "$work/file" >/dev/null 2>>"$work/log" &
  server=$!
  until byname route show /package/file >/dev/null 2>&1; do sleep 0.05; done
}

fetch_once() {
  byname get /package/file -o "$work/copy" >/dev/null 2>>"$work/log" && cmp -s "$work/file" "$work/copy"
}

# Fetches the file over and over. Writes a word for each time.
fetch() {
  while :; do
    if fetch_once; then echo whole; else echo failed; fi
    rm -f "$work/copy"
  done >"$work/fetched"
}

# Starts the program of before, and publishes a file. Leaves a loop that fetches it.
try_the_version_of_before() {
  head -c 3000000 /dev/urandom >"$work/file"
  start
  [[ $(stat -c %U /proc/$router) == byname ]] || fail "the router is not the user's"
  [[ $(running_version) == "$old_version" ]] || fail "the router is not version $old_version"
  serve
  fetch_once || fail "the file does not come"
  fetch &
  fetching=$!
}

# After an upgrade: no fetch has failed, a new process takes over, and starts with the state of the one before.
try_the_upgraded_version() {
  [[ $(running_version) == "$old_version" ]] || fail "the upgrade has stopped the router"
  local restarted tries=0
  restarted=$(byname restart 2>&1) || fail "no new process takes over: $restarted"
  [[ $(running_version) == "$version" ]] || fail "the router is not version $version after its restart"
  sleep 1
  kill $fetching
  wait $fetching 2>/dev/null || true
  fetching=
  [[ $(grep -c whole "$work/fetched") -gt 0 ]] || fail "the file did not come during the upgrade"
  ! grep -q failed "$work/fetched" || fail "a fetch failed during the upgrade"
  grep -q "# mine" /etc/byname/byname.toml || fail "the upgrade has changed the configuration"
  kill $server
  wait $server || true
  server=
  # The process that has taken over is no child of this one. Nobody may ask for its result, so its entry may stay.
  router=$(sed -n 's/^process .* to process \([0-9]*\),.*/\1/p' <<<"$restarted")
  kill "$router"
  while [[ -e /proc/$router/exe ]]; do
    ((tries++ < 200)) || fail "the router does not end"
    sleep 0.05
  done
  start
  serve
  fetch_once || fail "the file does not come after the upgrade"
  grep -q '"command":"rib/register"' /var/log/byname/audit.jsonl || fail "the audit log lacks commands"
  kill $server
  wait $server || true
  server=
  stop
}
