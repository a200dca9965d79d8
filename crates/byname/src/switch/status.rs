//! A switch's status over a Unix socket: the switch sends one line of JSON to each client that connects.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use byname_face::socket_file::{self, SocketFile};
use byname_switch::control::SwitchConfig;
use byname_switch::ports::{SwitchHandle, SwitchPortStatus, SwitchStatus, SwitchThreadStatus};
use byname_switch::run::AgentState;
use byname_switch::switch::Role;
use serde_json::{Map, Value, json};

use crate::exit;
use crate::manage::text::{self, Items};

/// Every user who can reach the socket may ask: the status is read-only.
const SOCKET_FILE_MODE: u32 = 0o666;
/// The switch drops a client that does not read for this long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);
const READ_TIMEOUT: Duration = Duration::from_secs(5);

fn path(config: &SwitchConfig) -> PathBuf {
    config.folder.join(&config.status)
}

/// Answers each client that connects, until the process ends. Dropping the returned value deletes the socket's file.
pub fn serve(config: &SwitchConfig, handle: SwitchHandle, agent: AgentState) -> anyhow::Result<Option<SocketFile>> {
    if config.status.as_os_str().is_empty() {
        return Ok(None);
    }
    let (listener, file) = socket_file::listen(&path(config), SOCKET_FILE_MODE)?;
    let (name, key, controller) = (config.name.clone(), config.key.word(), config.controller.to_string());
    let answer = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else {
                // No free descriptors: wait until some are closed.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            let Some(SwitchStatus { ports, threads }) = handle.status() else { return };
            let (connected, trouble) = agent.get();
            let status = json!({
                "name": name,
                "key": key,
                "controller": { "address": controller, "connected": connected, "trouble": trouble },
                "ports": ports.iter().map(port_json).collect::<Vec<_>>(),
                "threads": threads.iter().map(thread_json).collect::<Vec<_>>(),
            });
            let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT)).and_then(|()| writeln!(stream, "{status}"));
        }
    };
    std::thread::Builder::new().name("byname-status".into()).spawn(answer).context("cannot answer --status")?;
    Ok(Some(file))
}

fn port_json(port: &SwitchPortStatus) -> Value {
    let role = match port.role {
        Role::Closed => "closed",
        Role::Host => "host",
        Role::Trunk { floods: true } => "trunk",
        Role::Trunk { floods: false } => "trunk, not flooded",
    };
    let counters = &port.counters;
    let drops: Map<_, _> =
        counters.drops.iter().map(|(reason, count)| (reason.name().to_owned(), count.into())).collect();
    json!({
        "interface": port.interface,
        "role": role,
        "up": port.up,
        "mtu": port.mtu,
        "frames_in": counters.frames_in,
        "bytes_in": counters.bytes_in,
        "frames_out": counters.frames_out,
        "bytes_out": counters.bytes_out,
        "reports_suppressed": counters.reports_suppressed,
        "drops": drops,
    })
}

fn thread_json(thread: &SwitchThreadStatus) -> Value {
    json!({
        "ports": thread.interfaces,
        "frames_in": thread.frames_in,
        "frames_out": thread.frames_out,
        "frames_given": thread.crossing.given,
        "frames_taken": thread.crossing.taken,
        "frames_waiting": thread.crossing.waiting,
        "frames_dropped": thread.crossing.drops,
        "sleeps": thread.sleeps,
    })
}

/// Asks a running switch for its status and prints it.
pub fn show(config: &SwitchConfig, as_json: bool) -> anyhow::Result<u8> {
    if config.status.as_os_str().is_empty() {
        let told = format!("the file has no `status`: add `status = \"/run/byname/{}.sock\"`", config.name);
        return Err(exit::Failure::new(exit::USAGE, told).into());
    }
    let path = path(config);
    let mut stream = UnixStream::connect(&path).map_err(|error| {
        exit::Failure::new(exit::NO_FORWARDER, format!("no switch answers at {}: {error}", path.display()))
    })?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut line = String::new();
    stream.read_to_string(&mut line).with_context(|| format!("the switch at {}", path.display()))?;
    let text = if as_json { line } else { render(&serde_json::from_str(&line)?) };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(exit::OK)
}

/// Formats the status as text: a line for the switch, and one for each port.
fn render(status: &Value) -> String {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let controller = &status["controller"];
    let trouble = match controller["connected"].as_bool() {
        Some(true) => "connected".to_owned(),
        _ => format!("not connected: {}", shown(&controller["trouble"])),
    };
    let port = |port: &Value| -> Items {
        let drops = port["drops"].as_object().into_iter().flatten();
        let drops: Vec<_> = drops.map(|(reason, count)| format!("{reason}={count}")).collect();
        let mut items = vec![
            ("port", shown(&port["interface"])),
            ("role", shown(&port["role"])),
            ("state", if port["up"] == true { "up" } else { "down" }.to_owned()),
            ("in", shown(&port["frames_in"])),
            ("out", shown(&port["frames_out"])),
        ];
        if !drops.is_empty() {
            items.push(("dropped", format!("{{{}}}", drops.join(" "))));
        }
        items
    };
    let list = |key: &str| status[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let ports: Vec<_> = list("ports").iter().map(port).collect();
    let thread = |(number, thread): (usize, &Value)| -> Items {
        let ports: Vec<_> = thread["ports"].as_array().into_iter().flatten().map(shown).collect();
        vec![
            ("thread", number.to_string()),
            ("ports", ports.join(",")),
            ("in", shown(&thread["frames_in"])),
            ("out", shown(&thread["frames_out"])),
            ("given", shown(&thread["frames_given"])),
            ("taken", shown(&thread["frames_taken"])),
            ("waiting", shown(&thread["frames_waiting"])),
            ("dropped", shown(&thread["frames_dropped"])),
            ("sleeps", shown(&thread["sleeps"])),
        ]
    };
    // One thread has nothing to show that its ports do not show.
    let threads = list("threads");
    let threads = if threads.len() > 1 { threads } else { &[] };
    let threads: Vec<_> = threads.iter().enumerate().map(thread).collect();
    format!(
        "switch {}, key {}, controller {} ({trouble})\n{}{}",
        shown(&status["name"]),
        shown(&status["key"]),
        shown(&controller["address"]),
        text::indented(&text::columns(&ports)),
        text::indented(&text::columns(&threads))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_shown_to_people() {
        let port = json!({
            "interface": "eth1", "role": "host", "up": true, "frames_in": 12, "frames_out": 3,
            "drops": { "unknown_destination": 2 },
        });
        let thread = json!({
            "ports": ["eth1", "eth3"], "frames_in": 12, "frames_out": 3, "frames_given": 4, "frames_taken": 5,
            "frames_waiting": 0, "frames_dropped": 6, "sleeps": 7,
        });
        let mut status = json!({
            "name": "s1",
            "key": "vlan-mac",
            "controller": { "address": "unix:///c", "connected": false, "trouble": "the peer is silent" },
            "ports": [port],
            "threads": [thread],
        });
        let told = "switch s1, key vlan-mac, controller unix:///c (not connected: the peer is silent)\n  \
                    port=eth1 role=host state=up in=12 out=3 dropped={unknown_destination=2}\n";
        assert_eq!(render(&status), told);
        let idle = json!({
            "ports": ["eth2"], "frames_in": 0, "frames_out": 0, "frames_given": 0, "frames_taken": 0,
            "frames_waiting": 0, "frames_dropped": 0, "sleeps": 1,
        });
        status["threads"] = json!([thread, idle]);
        let threads = "  thread=0 ports=eth1,eth3 in=12 out=3 given=4 taken=5 waiting=0 dropped=6 sleeps=7\n  \
                       thread=1 ports=eth2      in=0  out=0 given=0 taken=0 waiting=0 dropped=0 sleeps=1\n";
        assert_eq!(render(&status), format!("{told}{threads}"));
    }
}
