//! A separate `byname run` for each test, and commands against it.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod authority;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::Value;
use tempfile::TempDir;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_byname");
const PATIENCE: Duration = Duration::from_secs(30);

/// Held for reading while a long process is started, and for writing while there are descriptors that every child would inherit.
static STARTS: RwLock<()> = RwLock::new(());

/// A running forwarder. Dropping this ends it.
pub struct Router {
    directory: TempDir,
    process: Child,
    /// The process that has taken over, if one has.
    successor: Option<u32>,
    /// UDP and TCP port.
    pub port: u16,
    /// WebSocket port.
    pub websocket_port: u16,
}

/// The result of a command.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Router {
    /// Starts a forwarder with its own Unix socket and ports.
    pub fn start() -> Router {
        Router::start_with("")
    }

    /// Like [`Router::start`], with additions to its configuration.
    pub fn start_with(configuration: &str) -> Router {
        Router::start_by(Command::new(PROGRAM), configuration)
    }

    /// Like [`Router::start_with`], with a limit on the process's open descriptors.
    pub fn start_with_descriptors(descriptors: usize, configuration: &str) -> Router {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""), PROGRAM]);
        Router::start_by(shell, configuration)
    }

    /// Like [`Router::start_with`], as if the machine had these memory nodes.
    pub fn start_on_nodes(nodes: &str, configuration: &str) -> Router {
        let mut program = Command::new(PROGRAM);
        program.env("BYNAME_NODES", nodes);
        Router::start_by(program, configuration)
    }

    /// Like [`Router::start_with`], as the service of a manager that listens on this socket.
    pub fn start_as_service(notify: &Path, configuration: &str) -> Router {
        let mut program = Command::new(PROGRAM);
        program.env("NOTIFY_SOCKET", notify);
        Router::start_by(program, configuration)
    }

    /// Starts a copy of the program, which a test may replace: the file `byname` in the router's folder.
    pub fn start_copy(configuration: &str) -> Router {
        let directory = tempfile::tempdir().expect("temporary directory");
        let copy = directory.path().join("byname");
        std::fs::copy(PROGRAM, &copy).expect("copy");
        Router::start_in(directory, Command::new(copy), configuration)
    }

    /// Like [`Router::start_with`], by a program that starts the one in its arguments.
    pub fn start_by(program: Command, configuration: &str) -> Router {
        Router::start_in(tempfile::tempdir().expect("temporary directory"), program, configuration)
    }

    fn start_in(directory: TempDir, program: Command, configuration: &str) -> Router {
        let (port, websocket_port) = (free_port(), free_port());
        let metrics = if configuration.contains("[metrics]") { "" } else { "[metrics]\nenabled = false\n" };
        let config = format!(
            "[faces.udp]\nport = {port}\nipv6 = false\n\
             [faces.tcp]\nport = {port}\nipv6 = false\n\
             [faces.websocket]\nport = {websocket_port}\nipv6 = false\n\
             [faces.unix]\npath = \"{}\"\n{metrics}{configuration}",
            directory.path().join("nfd.sock").display()
        );
        let path = directory.path().join("byname.toml");
        std::fs::write(&path, config).expect("write configuration");
        let process = spawn(program, directory.path());
        let router = Router { directory, process, successor: None, port, websocket_port };
        router.wait_until_it_listens()
    }

    /// Starts a router that has ended or was killed again, with the same configuration and state.
    pub fn start_again(mut self) -> Router {
        self.kill();
        self.process = spawn(Command::new(PROGRAM), self.directory.path());
        self.wait_until_it_listens()
    }

    /// Starts a router that has ended again, by a program that starts the one in its arguments and inherits descriptors.
    pub fn start_again_with(mut self, program: Command, inherited: Vec<OwnedFd>) -> Router {
        {
            let _no_other = STARTS.write().unwrap_or_else(PoisonError::into_inner);
            for descriptor in &inherited {
                fcntl_setfd(descriptor, FdFlags::empty()).expect("a flag");
            }
            self.process = spawn_now(program, self.directory.path());
            drop(inherited);
        }
        self.wait_until_it_listens()
    }

    /// Sends a signal to the process, waits for its end, and starts the same router again.
    pub fn restart(mut self, signal: &str) -> Router {
        self.end(signal);
        self.start_again_with(Command::new(PROGRAM), Vec::new())
    }

    /// Sends a signal to the process, and waits for its end.
    pub fn end(&mut self, signal: &str) {
        self.signal(signal);
        wait(&mut self.process);
        if let Some(pid) = self.successor.take() {
            let deadline = Instant::now() + PATIENCE;
            // A process that has closed everything is gone, or waits until somebody asks for its result. Its first
            // thread may wait so while others still hold its files.
            let has_ended = || {
                let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
                let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
                status.map_or(true, |status| status.contains(") Z ") && threads < 2)
            };
            while !has_ended() {
                assert!(Instant::now() < deadline, "the process does not end");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn wait_until_it_listens(mut self) -> Router {
        let deadline = Instant::now() + PATIENCE;
        // It opens the Unix socket first, and prints this when all ports are open and management answers.
        let told = format!("(process {})", self.pid());
        while !self.log().contains(&told) || std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            let ended = self.process.try_wait().expect("wait");
            assert!(ended.is_none() && Instant::now() < deadline, "no forwarder: {ended:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        self
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

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.successor.unwrap_or_else(|| self.process.id())
    }

    /// Makes the process start a new one that takes over, and waits until that runs.
    pub fn hand_over(&mut self) {
        let before = self.log().len();
        self.signal("-USR2");
        self.follow(before);
    }

    /// Like [`Router::hand_over`], with the command `restart`. Returns what the command says.
    pub fn restart_by_command(&mut self) -> String {
        let before = self.log().len();
        let said = self.ok("restart");
        self.follow(before);
        said
    }

    /// Waits until a new process says that it runs, in the log after its first `before` bytes.
    fn follow(&mut self, before: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            let told = log[before..].split_once(" runs (process ").and_then(|(_, rest)| rest.split_once(')'));
            if let Some((pid, _)) = told {
                self.successor = pid.parse().ok();
                return;
            }
            assert!(Instant::now() < deadline && !log[before..].contains("no restart"), "no new process\n{log}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid().to_string()]).status().expect("kill");
        assert!(status.success());
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// A command that connects to this forwarder.
    pub fn command(&self, line: &str) -> Command {
        command_at(&self.transport(), line)
    }

    /// Runs a command and waits for its end.
    pub fn run(&self, line: &str) -> Done {
        finish(self.command(line))
    }

    /// Runs a command that must succeed. Returns its standard output.
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

    /// Ends the forwarder at once, like a crash.
    pub fn kill(&mut self) {
        if let Some(successor) = self.successor {
            let _ = Command::new("kill").args(["-KILL", &successor.to_string()]).status();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Whether a ping is answered within a few seconds.
    pub fn reaches(&self, prefix: &str) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            if self.run(&format!("ping {prefix} -c 1 --timeout 500")).code == 0 {
                return true;
            }
        }
        false
    }

    /// Fetches a file that `producer` serves below `/demo`. Its packets are longer than frames and buffers, and many
    /// are in flight. The file must arrive complete. Dropping the returned value ends the file's server.
    pub fn fetches_whole(&self, producer: &Router) -> Server {
        let (original, copy) = (producer.path("sample"), self.path("copy"));
        let sample = write_sample(&original, 800_000);
        let put = format!("put /demo/file {} --segment-size 7800", original.display());
        let server = producer.serve(&put, "/demo/file", b"");
        self.ok(&format!("get /demo/file -o {}", copy.display()));
        assert!(std::fs::read(copy).expect("a file") == sample, "the file came whole");
        server
    }

    /// Starts a server command and waits until `prefix` is registered.
    pub fn serve(&self, line: &str, prefix: &str, input: &[u8]) -> Server {
        self.serve_over(&self.transport(), line, prefix, input)
    }

    /// Like [`Router::serve`], over another transport.
    pub fn serve_over(&self, transport: &str, line: &str, prefix: &str, input: &[u8]) -> Server {
        let mut process = {
            let _nothing_to_inherit = STARTS.read().unwrap_or_else(PoisonError::into_inner);
            command_at(transport, line)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("start byname")
        };
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

/// Starts the forwarder with the configuration, the state and the log in `directory`.
fn spawn(program: Command, directory: &Path) -> Child {
    let _nothing_to_inherit = STARTS.read().unwrap_or_else(PoisonError::into_inner);
    spawn_now(program, directory)
}

fn spawn_now(mut program: Command, directory: &Path) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(directory.join("log")).expect("open log");
    program
        .args(["run", "--config"])
        .arg(directory.join("byname.toml"))
        .env("STATE_DIRECTORY", directory.join("state"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("second handle"))
        .stderr(log)
        .spawn()
        .expect("start byname")
}

impl Drop for Router {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server command. It runs until this is dropped or it ends by itself.
pub struct Server(Child);

impl Server {
    /// Takes a process that is a server command.
    pub fn of(process: Child) -> Server {
        Server(process)
    }

    /// The process.
    pub fn process(&self) -> &Child {
        &self.0
    }

    /// Waits until the command ends by itself. Returns its result.
    pub fn finish(mut self) -> Done {
        let code = wait(&mut self.0);
        let text = |pipe: Option<&mut dyn Read>| {
            let mut text = String::new();
            pipe.map(|pipe| pipe.read_to_string(&mut text));
            text
        };
        let stdout = text(self.0.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
        let stderr = text(self.0.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
        Done { code, stdout, stderr }
    }

    /// Reads the JSON object that the command prints, up to a line `}`.
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

    /// Waits for its end. Returns its exit code.
    pub fn wait(mut self) -> i32 {
        wait(&mut self.0)
    }

    /// Interrupts it, like Ctrl-C, and returns its exit code.
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

/// Sends SIGINT with `kill`, because this crate has no unsafe code.
pub fn interrupt(process: &Child) {
    let status = Command::new("kill").args(["-INT", &process.id().to_string()]).status().expect("kill");
    assert!(status.success());
}

/// Waits for the end of a process, with a time limit.
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

/// A command that connects to the forwarder at `transport`, in an environment that names no other.
pub fn command_at(transport: &str, line: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(line.split_whitespace()).env("NDN_CLIENT_TRANSPORT", transport).env("HOME", "/nonexistent");
    command
}

/// Runs a command and waits for its end.
pub fn finish(mut command: Command) -> Done {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().expect("start byname");
    Done {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// Asserts that `object` has exactly the fields that `docs/json.md` lists for `what`.
pub fn assert_documented(what: &str, object: &Value) {
    let documentation = include_str!("../../../../docs/json.md");
    let start = documentation.find(&format!("- **{what}**: ")).unwrap_or_else(|| panic!("{what} is documented"));
    let text = &documentation[start + 4 + what.len()..];
    let text = text[..text.find("\n- **").or(text.find("\n\n")).expect("the end of the item")].replace('\n', " ");
    // Words in parentheses are values or explanations.
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

/// Writes `len` pseudo-random bytes, the same each time.
pub fn write_sample(path: &Path, len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let bytes: Vec<u8> = (0..len.div_ceil(8))
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .take(len)
        .collect();
    std::fs::write(path, &bytes).expect("write sample");
    bytes
}

/// A port on which no process listens.
pub fn free_port() -> u16 {
    // Below the system's ephemeral range, so that no outgoing connection takes it meanwhile.
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
