//! The usual metrics of a process, as all exporters of Prometheus name them. They are read from `/proc/self`.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Unit of times in `/proc`: Linux shows programs this one, whatever it counts by itself.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self` when it is encoded.
#[derive(Debug)]
pub struct ProcessMetrics;

/// Values of a process. Those that the system does not tell are absent.
#[derive(Debug, Default, PartialEq)]
struct Process {
    cpu_seconds: Option<f64>,
    start_time_seconds: Option<f64>,
    virtual_bytes: Option<u64>,
    resident_bytes: Option<u64>,
    threads: Option<u64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
}

impl Process {
    fn read() -> Process {
        let file = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let mut process = Process::parse(
            &file("stat"),
            &fs::read_to_string("/proc/stat").unwrap_or_default(),
            &file("status"),
            &file("limits"),
        );
        // The folder that is being read has a descriptor of its own.
        process.open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| (entries.count() as u64).saturating_sub(1));
        process
    }

    fn parse(stat: &str, system: &str, status: &str, limits: &str) -> Process {
        // The second field is the program's name in parentheses, which may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        // proc(5) counts fields from 1; the first after the name is the third.
        let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<u64>().ok());
        let seconds = |count: u64| count as f64 / TICKS_PER_SECOND;
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line?.split_whitespace().next()?.parse::<u64>().ok()
        };
        let booted = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
        let max_fds = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
        Process {
            cpu_seconds: field(14).zip(field(15)).map(|(user, system)| seconds(user + system)),
            start_time_seconds: field(22).zip(booted).map(|(start, booted)| booted as f64 + seconds(start)),
            virtual_bytes: value("VmSize").map(|kb| kb * 1024),
            resident_bytes: value("VmRSS").map(|kb| kb * 1024),
            threads: value("Threads"),
            open_fds: None,
            max_fds: max_fds.and_then(|max| max.parse().ok()),
        }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let process = Process::read();
        if let Some(seconds) = process.cpu_seconds {
            encoder
                .encode_descriptor(
                    "process_cpu_seconds",
                    "User and system time of the process",
                    None,
                    MetricType::Counter,
                )?
                .encode_counter::<NoLabelSet, f64, u64>(&seconds, None)?;
        }
        if let Some(seconds) = process.start_time_seconds {
            let help = "Start of the process since the Unix epoch";
            encoder
                .encode_descriptor("process_start_time_seconds", help, None, MetricType::Gauge)?
                .encode_gauge(&seconds)?;
        }
        let gauges = [
            ("process_virtual_memory_bytes", "Size of the process's address space", process.virtual_bytes),
            ("process_resident_memory_bytes", "Memory of the process", process.resident_bytes),
            ("process_threads", "Threads of the process", process.threads),
            ("process_open_fds", "Open descriptors", process.open_fds),
            ("process_max_fds", "Most descriptors that may be open", process.max_fds),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value.and_then(|value| i64::try_from(value).ok()) else { continue };
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_may_have_any_name() {
        let stat = "17 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16 4 18 2000 4096 3 21";
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 4096  files\n";
        let status = "Name:\ta) b (c\nVmSize:\t       4 kB\nVmRSS:\t      12 kB\nThreads:\t4\n";
        let process = Process::parse(stat, "cpu 1\nbtime 1000\n", status, limits);
        let expected = Process {
            cpu_seconds: Some(2.0),
            start_time_seconds: Some(1020.0),
            virtual_bytes: Some(4096),
            resident_bytes: Some(3 * 4096),
            threads: Some(4),
            open_fds: None,
            max_fds: Some(1024),
        };
        assert_eq!(process, expected);
        assert_eq!(Process::parse("", "", "", ""), Process::default());
        let own = Process::read();
        assert!(own.resident_bytes > Some(0) && own.open_fds > Some(0) && own.cpu_seconds.is_some(), "{own:?}");
    }
}
