"""The process: start-up, a second instance, SIGTERM, and CPU use while idle."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from packets import Wire, command, register_parameters
from router import Router, binary

IDLE_CPU_SHARE_MAX = 0.005


def test_start_up_table_says_where_it_listens(router: Router):
    time.sleep(0.3)
    log = router.log()
    assert str(router.socket_path) in log
    assert str(router.port) in log
    assert str(router.ws_port) in log


@pytest.mark.netns
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv to give up root")
def test_needs_no_configuration_and_no_rights(directory: Path):
    """User nobody, without a configuration: default ports, and a socket in the user's runtime directory."""
    nobody = 65534
    os.chown(directory, nobody, nobody)
    copy = shutil.copy(binary(), directory / "byname")
    space = f"byname-{os.getpid()}-bare"
    subprocess.run(["ip", "netns", "add", space], check=True)
    try:
        subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True)
        log = directory / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                ["ip", "netns", "exec", space, "setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups",
                 copy, "run"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/",
                env={"PATH": os.environ["PATH"], "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory)},
            )
        socket_path = directory / "nfd" / "nfd.sock"
        for _ in range(100):
            if socket_path.exists():
                break
            time.sleep(0.05)
        time.sleep(0.2)
        said = log.read_text()
        assert process.poll() is None, said
        assert f"NDN_CLIENT_TRANSPORT=unix://{socket_path}" in said, said
        assert "6363" in said and "9696" in said, said
        with Wire(f"unix://{socket_path}") as wire:
            assert wire.status(command("rib/register", register_parameters("/bare"))) == 200
        process.terminate()
        assert process.wait(5) == 0
    finally:
        process.kill()
        subprocess.run(["ip", "netns", "del", space], check=True)


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_with_status_zero(directory: Path, stop_signal: signal.Signals):
    router = Router(directory).start()
    router.process.send_signal(stop_signal)
    assert router.process.wait(5) == 0
    assert not router.socket_path.exists(), "the socket file is removed"


def test_starts_again_on_the_same_ports_at_once(directory: Path):
    router = Router(directory)
    for _ in range(3):
        router.start()
        assert router.stop() == 0


def test_starts_over_a_socket_left_by_a_killed_one(directory: Path):
    router = Router(directory).start()
    router.process.kill()
    router.process.wait()
    with router:
        assert router.process.poll() is None


def test_second_instance_says_what_holds_the_port(router: Router):
    second = subprocess.run(
        [str(binary()), "run", "--ephemeral", "--config", str(router.config_path)],
        capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL,
    )
    assert second.returncode != 0
    said = second.stdout + second.stderr
    assert str(router.port) in said or str(router.socket_path) in said
    assert re.search(r"in use|already|another|holds", said, re.IGNORECASE), said
    assert router.process.poll() is None


def test_unknown_key_is_refused_with_a_suggestion(directory: Path):
    router = Router(directory)
    router.config_path.write_text(router.config().replace("[faces.udp]", "[faces.upd]"))
    for arguments in (["check", str(router.config_path)], ["run", "--config", str(router.config_path)]):
        result = subprocess.run([str(binary()), *arguments], capture_output=True, text=True, timeout=10)
        assert result.returncode != 0
        assert "`upd`" in result.stderr and "`udp`" in result.stderr, result.stderr


def test_default_config_passes_its_own_check(directory: Path):
    text = subprocess.run([str(binary()), "default-config"], capture_output=True, text=True, check=True).stdout
    path = directory / "default.toml"
    path.write_text(text)
    subprocess.run([str(binary()), "check", str(path)], check=True, capture_output=True)


@pytest.mark.measures
def test_idle_router_uses_next_to_no_cpu(router: Router):
    time.sleep(1)
    usage = router.usage()
    before = usage.cpu_times()
    began = time.monotonic()
    time.sleep(10)
    after = usage.cpu_times()
    spent = after.user + after.system - before.user - before.system
    share = spent / (time.monotonic() - began)
    assert share < IDLE_CPU_SHARE_MAX, f"{share:.2%} of a core"


def test_metrics_are_served_on_loopback(router: Router):
    metrics = router.metrics()
    assert metrics
    assert all(re.match(r"byname_|process_", name) for name in metrics), sorted(metrics)[:10]
