//! A `byname run` of its own for each test, and commands against it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_byname");
const PATIENCE: Duration = Duration::from_secs(30);

/// A running forwarder; it ends with this.
pub struct Router {
    directory: TempDir,
    process: Child,
    /// UDP and TCP port.
    pub port: u16,
    /// WebSocket port.
    pub websocket_port: u16,
}

/// What a command left.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Router {
    /// Starts a forwarder with a Unix socket and ports of its own.
    pub fn start() -> Router {
        Router::start_with("")
    }

    /// The same, with more in its configuration.
    pub fn start_with(configuration: &str) -> Router {
        let directory = tempfile::tempdir().expect("temporary directory");
        let (port, websocket_port) = (free_port(), free_port());
        let config = format!(
            "[faces.udp]\nport = {port}\nipv6 = false\n\
             [faces.tcp]\nport = {port}\nipv6 = false\n\
             [faces.websocket]\nport = {websocket_port}\nipv6 = false\n\
             [faces.unix]\npath = \"{}\"\n[metrics]\nenabled = false\n{configuration}",
            directory.path().join("nfd.sock").display()
        );
        let path = directory.path().join("byname.toml");
        std::fs::write(&path, config).expect("write configuration");
        let log = std::fs::File::create(directory.path().join("log")).expect("create log");
        let process = Command::new(PROGRAM)
            .args(["run", "--config"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("second handle"))
            .stderr(log)
            .spawn()
            .expect("start byname");
        let mut router = Router { directory, process, port, websocket_port };
        let deadline = Instant::now() + PATIENCE;
        while std::os::unix::net::UnixStream::connect(router.socket()).is_err() {
            let ended = router.process.try_wait().expect("wait");
            assert!(ended.is_none() && Instant::now() < deadline, "no forwarder: {ended:?}\n{}", router.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        router
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("nfd.sock")
    }

    pub fn transport(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// A command towards this forwarder.
    pub fn command(&self, line: &str) -> Command {
        command_at(&self.transport(), line)
    }

    /// Runs a command to its end.
    pub fn run(&self, line: &str) -> Done {
        finish(self.command(line))
    }

    /// Runs a command that must succeed; returns its standard output.
    pub fn ok(&self, line: &str) -> String {
        let done = self.run(line);
        assert_eq!(done.code, 0, "byname {line}: {}\n{}\n{}", done.stdout, done.stderr, self.log());
        done.stdout
    }

    /// Runs a command that must succeed, with `--json`.
    pub fn json(&self, line: &str) -> Value {
        let stdout = self.ok(&format!("{line} --json"));
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("byname {line}: {error} in {stdout}"))
    }

    /// Whether pings pass within a few seconds.
    pub fn reaches(&self, prefix: &str) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.run(&format!("ping {prefix} -c 1 --timeout 500")).code == 0 {
                return true;
            }
        }
        false
    }

    /// Fetches a file that `producer` serves below `/demo`, in packets longer than frames and buffers, many at
    /// a time; it must come whole. The server of it ends with what is returned.
    pub fn fetches_whole(&self, producer: &Router) -> Server {
        let (original, copy) = (producer.path("sample"), self.path("copy"));
        let sample = write_sample(&original, 800_000);
        let put = format!("put /demo/file {} --segment-size 7800", original.display());
        let server = producer.serve(&put, "/demo/file", b"");
        self.ok(&format!("get /demo/file -o {}", copy.display()));
        assert!(std::fs::read(copy).expect("a file") == sample, "the file came whole");
        server
    }

    /// Starts a command that serves, and waits until `prefix` is registered.
    pub fn serve(&self, line: &str, prefix: &str, input: &[u8]) -> Server {
        self.serve_over(&self.transport(), line, prefix, input)
    }

    /// The same over another transport.
    pub fn serve_over(&self, transport: &str, line: &str, prefix: &str, input: &[u8]) -> Server {
        let mut process = command_at(transport, line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start byname");
        process.stdin.take().expect("piped").write_all(input).expect("write standard input");
        let deadline = Instant::now() + PATIENCE;
        while self.run(&format!("route show {prefix}")).code != 0 {
            if let Some(status) = process.try_wait().expect("wait") {
                let mut stderr = String::new();
                let _ = process.stderr.take().expect("piped").read_to_string(&mut stderr);
                panic!("byname {line}: {status}\n{stderr}\n{}", self.log());
            }
            assert!(Instant::now() < deadline, "byname {line} did not register {prefix}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Server(process)
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command that serves until it is dropped or ends by itself.
pub struct Server(Child);

impl Server {
    /// What it printed up to a line `}`: a JSON object.
    pub fn json(&mut self) -> Value {
        let stdout = BufReader::new(self.0.stdout.as_mut().expect("piped"));
        let mut text = String::new();
        for line in stdout.lines() {
            let line = line.expect("read");
            text += &line;
            if line == "}" {
                break;
            }
        }
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// Its exit code, once it has ended.
    pub fn wait(mut self) -> i32 {
        wait(&mut self.0)
    }

    /// Asks it to end, as Ctrl-C does, and returns its exit code.
    pub fn interrupt(mut self) -> i32 {
        interrupt(&self.0);
        wait(&mut self.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends SIGINT; by `kill`, for this crate has no unsafe code.
pub fn interrupt(process: &Child) {
    let status = Command::new("kill").args(["-INT", &process.id().to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Waits for the end of a process, but not for ever.
pub fn wait(process: &mut Child) -> i32 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = process.try_wait().expect("wait") {
            return status.code().unwrap_or(-1);
        }
        assert!(Instant::now() < deadline, "the process does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A command towards the forwarder at `transport`, in an environment that names no other.
pub fn command_at(transport: &str, line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(line.split_whitespace()).env("NDN_CLIENT_TRANSPORT", transport).env("HOME", "/nonexistent");
    command
}

/// Runs a command to its end.
pub fn finish(mut command: Command) -> Done {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("start byname");
    Done {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Asserts that `object` has exactly the fields that `docs/json.md` promises for `what`.
pub fn assert_documented(what: &str, object: &Value) {
    let documentation = include_str!("../../../../docs/json.md");
    let start = documentation.find(&format!("- **{what}**: ")).unwrap_or_else(|| panic!("{what} is documented"));
    let text = &documentation[start + 4 + what.len()..];
    let text = text[..text.find("\n- **").or(text.find("\n\n")).expect("the end of the item")].replace('\n', " ");
    // Words in parentheses are values, or explain.
    let mut depth = 0;
    let outside: String = text
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        })
        .collect();
    let words = outside.split('`').skip(1).step_by(2).filter(|word| !word.starts_with('{'));
    let mut promised: Vec<&str> = words.collect();
    let object = object.as_object().unwrap_or_else(|| panic!("{what}: {object}"));
    let mut has: Vec<&str> = object.keys().map(String::as_str).collect();
    promised.sort_unstable();
    has.sort_unstable();
    assert_eq!(has, promised, "{what}");
}

/// Writes `len` octets that look random, the same each time.
pub fn write_sample(path: &Path, len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let octets: Vec<u8> = (0..len.div_ceil(8))
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .take(len)
        .collect();
    std::fs::write(path, &octets).expect("write sample");
    octets
}

fn free_port() -> u16 {
    // Below the system's ephemeral range, so that no outgoing connection takes it in between.
    let start = 12_000 + (std::process::id() as u16).wrapping_mul(37) % 8_000;
    static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
    loop {
        let port = start + NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let free =
            TcpListener::bind(("127.0.0.1", port)).is_ok() && std::net::UdpSocket::bind(("0.0.0.0", port)).is_ok();
        if free {
            return port;
        }
    }
}
