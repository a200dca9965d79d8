#!/usr/bin/env python3
"""Writes grafana.json, byname's dashboard for Grafana. With --check, only compares it.

The panels are below, by row. A panel has a title, a unit of Grafana, and queries with their legends. In queries, @ stands
for the labels that choose routers: `name{@}`, `name{@, type="data"}`.
"""

import json
import sys
from pathlib import Path

FILE = Path(__file__).with_name("grafana.json")
SELECTOR = 'job=~"$job", instance=~"$instance"'
WIDTH = 24
HEIGHT = 8


def rate(metric: str, labels: str = "", by: str = "") -> str:
    """The rate of a counter a second, summed by these labels and by router."""
    matchers = "@" + (", " + labels if labels else "")
    return f"sum by (instance{', ' + by if by else ''}) (rate({metric}{{{matchers}}}[$__rate_interval]))"


def quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, sum by (instance, thread, le) (rate({metric}_bucket{{@}}[$__rate_interval])))"


HITS, MISSES = rate("byname_cs_hits_total"), rate("byname_cs_misses_total")
SATISFIED, UNSATISFIED = rate("byname_satisfied_interests_total"), rate("byname_unsatisfied_interests_total")
STAGE_SECONDS, STAGE_PACKETS = rate("byname_stage_seconds_total", by="stage"), rate("byname_stage_packets_total", by="stage")

# Numbers at the top: title, unit, query, and the value from which on it is red, if there is one.
NUMBERS = [
    ("Interests", "reqps", rate("byname_packets_total", 'direction="in", type="interest"'), None),
    ("Data out", "Bps", rate("byname_links_out_bytes_total"), None),
    ("Answered by the content store", "percentunit", f"{HITS} / ({HITS} + {MISSES})", None),
    ("Interests without an answer", "percentunit", f"{UNSATISFIED} / ({SATISFIED} + {UNSATISFIED})", 0.5),
    ("Pending Interests", "short", "byname_pit_entries{@}", None),
    ("Busiest thread", "percentunit", "max by (instance) (rate(byname_thread_busy_seconds_total{@}[$__rate_interval]))", 0.9),
    ("Up since", "dateTimeFromNow", "process_start_time_seconds{@} * 1000", None),
    ("State on the disk", "short", "byname_state_durable{@}", None),
]

ROWS = {
    "Traffic": [
        ("Packets in", "pps", [(rate("byname_packets_total", 'direction="in"', "type"), "{{instance}} {{type}}")]),
        ("Packets out", "pps", [(rate("byname_packets_total", 'direction="out"', "type"), "{{instance}} {{type}}")]),
        ("Bytes", "Bps", [
            (rate("byname_links_in_bytes_total"), "{{instance}} in"),
            (rate("byname_links_out_bytes_total"), "{{instance}} out")]),
        ("Interests", "reqps", [
            (HITS, "{{instance}} from the content store"),
            (SATISFIED, "{{instance}} answered by Data"),
            (UNSATISFIED, "{{instance}} not answered")]),
        ("Drops by reason", "pps", [(rate("byname_drops_total", by="reason") + " > 0", "{{instance}} {{reason}}")]),
        ("Links", "pps", [
            (rate("byname_links_out_drops_total"), "{{instance}} not sent"),
            (rate("byname_links_in_malformed_total"), "{{instance}} malformed"),
            (rate("byname_links_retransmissions_total"), "{{instance}} sent again"),
            (rate("byname_links_reassembly_timeouts_total"), "{{instance}} not reassembled"),
            (rate("byname_links_congestion_marks_total"), "{{instance}} marked as congested")]),
    ],
    "Latency": [
        ("Time of a round (a packet's time in the router)", "s", [
            (quantile(0.5, "byname_round_seconds"), "{{instance}} thread {{thread}} p50"),
            (quantile(0.99, "byname_round_seconds"), "{{instance}} thread {{thread}} p99")]),
        ("Packets of a round", "short", [
            (quantile(0.5, "byname_round_packets"), "{{instance}} thread {{thread}} p50"),
            (quantile(0.99, "byname_round_packets"), "{{instance}} thread {{thread}} p99")]),
        ("Time of a packet in each stage", "s", [(f"{STAGE_SECONDS} / {STAGE_PACKETS}", "{{instance}} {{stage}}")]),
    ],
    "Tables": [
        ("Pending Interests", "short", [("byname_pit_entries{@}", "{{instance}}")]),
        ("Content store", "short", [
            ("byname_cs_packets{@}", "{{instance}} packets"), ("byname_cs_packets_max{@}", "{{instance}} at most")]),
        ("Content store, memory", "bytes", [("byname_cs_bytes{@}", "{{instance}}")]),
        ("Routes", "short", [
            ("byname_routes{@}", "{{instance}} routes"), ("byname_fib_entries{@}", "{{instance}} prefixes in the FIB"),
            ("byname_announcements{@}", "{{instance}} announcements")]),
        ("Learned routes", "cps", [(rate("byname_learned_routes_total", by="outcome"), "{{instance}} {{outcome}}")]),
        ("Tags", "short", [("byname_descriptors{@}", "{{instance}} descriptors")]),
    ],
    "Threads": [
        ("Time at work", "percentunit", [
            ("rate(byname_thread_busy_seconds_total{@}[$__rate_interval])", "{{instance}} thread {{thread}}")]),
        ("Imbalance: the busiest thread over the mean", "short", [("byname_thread_imbalance{@}", "{{instance}}")]),
        ("Packets between threads", "pps", [
            (rate("byname_thread_packets_total", by="way"), "{{instance}} {{way}}"),
            (rate("byname_thread_ring_drops_total", by="direction"), "{{instance}} lost, {{direction}}")]),
        ("Faces of a thread", "short", [("byname_thread_faces{@}", "{{instance}} thread {{thread}}")]),
        ("Popular names", "short", [
            ("byname_hot_names{@}", "{{instance}} names"),
            ("byname_shared_pit_entries{@}", "{{instance}} shared pending Interests")]),
        ("Sleeps", "cps", [(rate("byname_thread_sleeps_total", by="thread"), "{{instance}} thread {{thread}}")]),
    ],
    "Faces": [
        ("Faces", "short", [("byname_faces{@}", "{{instance}}")]),
        ("Closed by the router", "cps", [(rate("byname_faces_closed_total", by="reason") + " > 0", "{{instance}} {{reason}}")]),
        ("The ten faces that receive most", "Bps", [
            (f"topk(10, {rate('byname_face_in_bytes_total', by='face, remote')})", "{{instance}} {{remote}}")]),
        ("The ten faces that send most", "Bps", [
            (f"topk(10, {rate('byname_face_out_bytes_total', by='face, remote')})", "{{instance}} {{remote}}")]),
        ("Packets not sent, by face", "pps", [
            (f"topk(10, {rate('byname_face_out_drops_total', by='face, remote')} > 0)", "{{instance}} {{remote}}")]),
    ],
    "Management and trust": [
        ("Commands refused", "cps", [(rate("byname_command_refusals_total", by="reason") + " > 0", "{{instance}} {{reason}}")]),
        ("Chains of certificates", "cps", [(rate("byname_trust_chains_total", by="outcome"), "{{instance}} {{outcome}}")]),
        ("Prefixes told to the routing daemon and the hub", "short", [("byname_advertised_prefixes{@}", "{{instance}} {{to}}")]),
        ("State", "cps", [
            (rate("byname_state_changes_total"), "{{instance}} changes"), (rate("byname_state_commits_total"), "{{instance}} commits")]),
        ("State that waits for the disk", "short", [("byname_state_waiting{@}", "{{instance}}")]),
        ("Lines that the audit log lost", "short", [("byname_audit_lost_total{@}", "{{instance}}")]),
    ],
    "Process": [
        ("Processor time", "percentunit", [("rate(process_cpu_seconds_total{@}[$__rate_interval])", "{{instance}}")]),
        ("Memory", "bytes", [("process_resident_memory_bytes{@}", "{{instance}}")]),
        ("File descriptors", "short", [
            ("process_open_fds{@}", "{{instance}} open"), ("process_max_fds{@}", "{{instance}} at most")]),
        ("Version", "short", [("byname_build_info{@}", "{{instance}} {{version}}")]),
    ],
}
# Graphs stand three in a line.
COLUMNS = 3

SOURCE = {"type": "prometheus", "uid": "${source}"}


def targets(queries: list[tuple[str, str]]) -> list[dict]:
    return [
        {"datasource": SOURCE, "refId": chr(ord("A") + at), "expr": query.replace("@", SELECTOR), "legendFormat": legend}
        for at, (query, legend) in enumerate(queries)
    ]


def number(at: int, title: str, unit: str, query: str, red_from: float | None) -> dict:
    steps = [{"color": "text", "value": None}] + ([{"color": "red", "value": red_from}] if red_from else [])
    if title == "State on the disk":
        steps = [{"color": "red", "value": None}, {"color": "green", "value": 1}]
    width = WIDTH // len(NUMBERS)
    return {
        "type": "stat", "title": title, "datasource": SOURCE, "gridPos": {"x": at * width, "y": 0, "w": width, "h": 4},
        "targets": targets([(query, "{{instance}}")]),
        "fieldConfig": {"defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}}, "overrides": []},
        "options": {"colorMode": "value", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}},
    }


def graph(at: int, y: int, title: str, unit: str, queries: list[tuple[str, str]]) -> dict:
    width = WIDTH // COLUMNS
    return {
        "type": "timeseries", "title": title, "datasource": SOURCE,
        "gridPos": {"x": at % COLUMNS * width, "y": y + at // COLUMNS * HEIGHT, "w": width, "h": HEIGHT},
        "targets": targets(queries),
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
    }


def panels() -> list[dict]:
    panels, y = [number(at, *told) for at, told in enumerate(NUMBERS)], 4
    for title, graphs in ROWS.items():
        panels.append({"type": "row", "title": title, "collapsed": False, "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}, "panels": []})
        panels += [graph(at, y + 1, *told) for at, told in enumerate(graphs)]
        y += 1 + -(-len(graphs) // COLUMNS) * HEIGHT
    return [{"id": at + 1, **panel} for at, panel in enumerate(panels)]


def variable(name: str, label: str, query: str) -> dict:
    return {
        "type": "query", "name": name, "label": label, "datasource": SOURCE, "query": query, "refresh": 2, "sort": 1,
        "includeAll": True, "multi": True, "current": {"text": "All", "value": "$__all"},
    }


def dashboard() -> dict:
    return {
        "title": "byname", "uid": "byname", "tags": ["ndn"], "schemaVersion": 39, "editable": True,
        "time": {"from": "now-1h", "to": "now"}, "refresh": "10s", "graphTooltip": 1,
        "templating": {"list": [
            {"type": "datasource", "name": "source", "label": "Prometheus", "query": "prometheus"},
            variable("job", "Job", "label_values(byname_build_info, job)"),
            variable("instance", "Router", 'label_values(byname_build_info{job=~"$job"}, instance)'),
        ]},
        "annotations": {"list": [{
            "name": "Starts", "enable": True, "datasource": SOURCE, "iconColor": "orange", "titleFormat": "{{instance}} started",
            "expr": f"changes(process_start_time_seconds{{{SELECTOR}}}[1m]) > 0",
        }]},
        "panels": panels(),
    }


def main() -> None:
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" in sys.argv:
        if not FILE.exists() or FILE.read_text() != text:
            sys.exit(f"{FILE} is not what {__file__} writes: run it")
    else:
        FILE.write_text(text)


if __name__ == "__main__":
    main()
