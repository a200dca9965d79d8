"""What keeping state costs: `measure_state.py LAB NOW [BEFORE] [--rounds N] [--routes N] [--seconds N] [--starts]
[--ndnreg PROGRAM]`.

LAB is byname-lab, NOW a router, and BEFORE one without a store (8b99077). In
turn, N (5) times, each is measured: idle, forwarding over UDP, a million
registrations with windows of 64 and 1000, and a batch (`byname -f`) of a
million routes; and the time from its start until the routes of the store
forward. NOW runs with the store and with --ephemeral. --starts leaves out
what the lab measures. --ndnreg has the routes registered by that program,
too, with its window of 64 and with 1000. The lab writes its lines to lab-results/*.jsonl;
`forwarder` is `before`, `store` or `ephemeral`. All other lines are on
standard output. Wants a quiet machine and a disk: the store is
in a folder of the current directory.
"""

import argparse
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

CONFIG = """[faces.udp]
port = 36363
ipv6 = false
[faces.tcp]
port = 36363
ipv6 = false
[faces.websocket]
port = 39696
ipv6 = false
[faces.unix]
path = "{folder}/nfd.sock"
[metrics]
enabled = false
[rib]
routes_max = 4000000
"""
STATE = """[state]
file = "{folder}/state.db"
"""


class Subject:
    """A router, with a configuration and a store of its own."""

    def __init__(self, label: str, program: str, folder: Path, ephemeral: bool) -> None:
        self.label, self.folder = label, folder
        folder.mkdir()
        self.config = folder / "byname.toml"
        # A router without a store knows no such section.
        state = STATE if label == "store" else ""
        self.config.write_text((CONFIG + state).format(folder=folder))
        self.start = f"{program} run --config {self.config}" + (" --ephemeral" if ephemeral else "")

    def lab(self, lab: str, *arguments: str) -> None:
        """Measures with an empty store."""
        self.forget()
        command = [lab, *arguments, "--label", self.label, "--start", self.start, "--socket", f"{self.folder}/nfd.sock"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)

    def forget(self) -> None:
        for file in self.folder.glob("state.db*"):
            file.unlink()

    def run(self) -> tuple[subprocess.Popen, float]:
        """Starts the router. Returns it, and the seconds until it said that it runs."""
        log = self.folder / "log"
        with log.open("w") as out:
            begin = time.monotonic()
            process = subprocess.Popen(self.start.split(), stdout=out, stderr=out)
            # This is said when the routes are in the tables and the applications' socket is open.
            while f"runs (process {process.pid})" not in log.read_text():
                assert process.poll() is None and time.monotonic() < begin + 60, log.read_text()
                time.sleep(0.002)
            return process, time.monotonic() - begin

    def time_of_start(self, signal_number: int, stays_s: float = 0) -> float:
        """The seconds until the router says that it runs. Ends it by a signal."""
        process, seconds = self.run()
        time.sleep(stays_s)
        process.send_signal(signal_number)
        process.wait()
        return seconds

    def time_of_client(self, command: list[str]) -> float:
        """The seconds of this command, in an empty store. `SOCKET` and `FACE` in it are replaced."""
        self.forget()
        process, _ = self.run()
        program, socket = self.start.split()[0], f"{self.folder}/nfd.sock"
        ask = [program, "--transport", f"unix://{socket}", "face", "create", "udp4://127.0.0.1:9", "permanent", "--json"]
        face = json.loads(subprocess.run(ask, check=True, capture_output=True).stdout)["face_id"]
        words = [word.replace("SOCKET", socket).replace("FACE", str(face)) for word in command]
        begin = time.monotonic()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begin
        process.send_signal(signal.SIGTERM)
        process.wait()
        return seconds


def commit_of(subject: Subject) -> str:
    said = subprocess.run([subject.start.split()[0], "--version"], capture_output=True, text=True, check=True).stdout
    return said.split("(")[1].split(")")[0] if "(" in said else ""


def tell(experiment: str, subject: Subject, routes: int, **measured: object) -> None:
    line = {
        "experiment": experiment, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line).split(": ")[1],
        "commit": commit_of(subject), "kernel": os.uname().release, "cores": os.cpu_count(), "load_average": os.getloadavg()[0],
        "forwarder": subject.label, "routes": routes, **measured,
    }
    print(json.dumps(line), flush=True)


def measure_ndnreg(subject: Subject, routes: int, program: str) -> None:
    for window in ("64", "1000"):
        command = [program, "--sock", "SOCKET", "--face", "FACE", "--count", str(routes), "--window", window]
        seconds = subject.time_of_client([*command, "--tmpl", "/ndn/site%07d/app", "--maxsec", "600"])
        tell("ndnreg", subject, routes, window=int(window), seconds=seconds)


def measure_batch(subject: Subject, routes: int) -> None:
    batch = subject.folder / "batch"
    batch.write_text("".join(f"route add /batch/site{n}/app udp4://127.0.0.1:9 cost 5\n" for n in range(routes)))
    program = subject.start.split()[0]
    seconds = subject.time_of_client([program, "-f", str(batch), "--transport", "unix://SOCKET"])
    tell("batch", subject, routes, seconds=seconds, commands_per_s=routes / seconds)


def measure_starts(subject: Subject, routes: int) -> None:
    # Right after the registrations, most of them are in the log. An idle router moves them into the database.
    ends = {"killed at once": (signal.SIGKILL, 0), "ended after some idle seconds": (signal.SIGTERM, 10)}
    for end, (number, stays_s) in ends.items():
        subject.time_of_start(number, stays_s)
        tell("start", subject, routes, end=end, seconds=subject.time_of_start(signal.SIGTERM))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lab")
    parser.add_argument("now")
    parser.add_argument("before", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--routes", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--starts", action="store_true")
    parser.add_argument("--ndnreg")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name).resolve()
        subjects = [Subject("store", options.now, folder / "store", False)]
        subjects.append(Subject("ephemeral", options.now, folder / "ephemeral", True))
        if options.before:
            subjects.append(Subject("before", options.before, folder / "before", False))
        for turn in range(options.rounds):
            # Another one begins each time.
            for subject in subjects[turn % len(subjects):] + subjects[:turn % len(subjects)]:
                if not options.starts:
                    subject.lab(options.lab, "idle", "--seconds", str(options.seconds))
                    subject.lab(options.lab, "wire", "--forwarder", "127.0.0.1:36363", "--seconds", str(options.seconds))
                    for window in ("1000", "64"):
                        subject.lab(options.lab, "routes", "--count", str(options.routes), "--window", window)
                if options.ndnreg:
                    measure_ndnreg(subject, options.routes, options.ndnreg)
                if subject.label != "before":
                    measure_batch(subject, options.routes)
                if subject.label == "store":
                    measure_starts(subject, options.routes)


if __name__ == "__main__":
    main()
