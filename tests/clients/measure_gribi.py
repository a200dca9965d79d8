"""How many changes a second a controller gets acknowledged over gRPC.

`measure_gribi.py [--prefixes 300000,1000000] [--repetitions 3] [--out FILE]`

Starts a router that keeps its state on disk, and `byname gribi serve` beside it. Then, for each number of prefixes, times
`byname gribi load` of a file that adds them in one session, in the median of several runs, each with a new router. Each prefix
counts when its acknowledgement says that packets are forwarded by it (FIB_PROGRAMMED). Prints one line of JSON for each
number. Needs a quiet machine.
"""

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

from measure_fleet import tell
from router import binary, free_ports


def load(prefixes: int) -> tuple[float, int]:
    """Seconds until all were acknowledged, and bytes of the server's memory."""
    folder = Path(tempfile.mkdtemp(prefix="byname-gribi-", dir="/var/tmp"))
    port, grpc = free_ports(2)
    config, socket, lines = folder / "byname.toml", folder / "nfd.sock", folder / "lines"
    config.write_text(
        f'[general]\nstate_folder = "{folder}"\n[faces.udp]\nport = {port}\nipv6 = false\n'
        f"multicast = {{ enabled = false }}\n[faces.tcp]\nlisten = false\n[faces.websocket]\nlisten = false\n"
        f'[faces.unix]\npath = "{socket}"\n[metrics]\nenabled = false\n[rib]\nroutes_max = {prefixes + 1000}\n'
    )
    with lines.open("w") as out:
        out.write("add next-hop 1 udp4://127.0.0.2:9000\nadd group 7 1:10\n")
        out.writelines(f"add prefix /example/{n % 1000}/{n} 7\n" for n in range(prefixes))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([str(binary()), "run", "--config", str(config)], **quiet)]
    try:
        while not socket.exists():
            time.sleep(0.05)
        processes.append(subprocess.Popen(
            [str(binary()), "gribi", "serve", "--listen", f"127.0.0.1:{grpc}", "--transport", f"unix://{socket}"], **quiet,
        ))
        client = [str(binary()), "gribi", "--server", f"http://127.0.0.1:{grpc}"]
        while subprocess.run([*client, "get"], **quiet).returncode:
            time.sleep(0.1)
        begun = time.monotonic()
        subprocess.run([*client, "load", str(lines)], check=True, **quiet)
        return time.monotonic() - begun, psutil.Process(processes[1].pid).memory_info().rss
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefixes", default="300000,1000000", help="numbers of prefixes")
    parser.add_argument("--repetitions", type=int, default=3, help="runs for each")
    parser.add_argument("--out", type=Path, help="file to which lines are added")
    arguments = parser.parse_args()
    for prefixes in map(int, arguments.prefixes.split(",")):
        runs = [load(prefixes) for _ in range(arguments.repetitions)]
        rates = sorted(prefixes / seconds for seconds, _ in runs)
        record = {
            "experiment": "gribi", "prefixes": prefixes, "repetitions": len(runs), "changes_per_s": round(statistics.median(rates)),
            "least_per_s": round(rates[0]), "most_per_s": round(rates[-1]), "server_bytes": max(rss for _, rss in runs),
        }
        tell(record, arguments.out)


if __name__ == "__main__":
    main()
