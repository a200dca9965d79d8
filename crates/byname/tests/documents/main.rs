//! Runs what documents contain: the guide page by page ([`guide`]), and every `byname` command of README.md, docs and
//! `--help`.
//!
//! In the latter, the test replaces only what a reader must replace: the neighbour's name, a face's number, and the default
//! ports.

mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod drawn;
mod guide;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use blocks::{Mark, parts};
use common::{Router, Server, command_at, finish, write_sample};

/// Commands whose `--help` has examples.
const WITH_EXAMPLES: [&str; 4] = ["", "face create", "route add", "strategy set"];
/// Commands with demonstrations, networks and ports of their own. `tests/tagnet.rs`, `tests/tags.rs`, `tests/switch.rs`,
/// `tests/dashboard.rs` and `tests/fleet.rs` run them; `crates/gribi/tests/served.rs` does what `gribi` does.
const RUN_ELSEWHERE: [&str; 8] =
    ["demo", "switch", "switch-controller", "tags", "dashboard", "agent", "fleet", "gribi"];
/// Commands that run until they are interrupted.
const SERVERS: [&str; 4] = ["run", "put", "ping-server", "poke"];
/// Minimum number of commands in the documents: guards against a search that finds none.
const COMMANDS_MIN: usize = 25;

/// The commands on a line, without prompt and remark. A line with `&` has several.
fn commands_of(line: &str) -> impl Iterator<Item = String> {
    let line = line.split("  #").next().unwrap_or_default();
    // In `--help`, several spaces separate a command from its remark.
    let line = line.trim().split("   ").next().unwrap_or_default();
    line.split(" & ").filter_map(|command| command.trim().strip_prefix("byname ").map(|c| c.trim().to_owned()))
}

/// README.md, then all files in docs, sorted by name, each with its path. Their commands run in this order.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let in_docs = std::fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> =
        in_docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    paths.sort();
    let read = |path: PathBuf| (path.display().to_string(), std::fs::read_to_string(path).expect("a document"));
    [root.join("README.md")].into_iter().chain(paths).map(read).collect()
}

/// The commands in a document: lines of shell blocks, and code in sentences.
fn commands_in(document: &str) -> Vec<String> {
    let parts = parts(document);
    let blocks = parts.blocks.iter().filter(|block| block.language == "sh" && block.mark != Some(Mark::NotRun));
    let in_blocks = blocks.flat_map(|block| block.text.lines()).flat_map(commands_of);
    // Code in a sentence that is only a command's name is not a command to run.
    let code = parts.prose.split('`').skip(1).step_by(2).filter(|code| code.contains(" -") || code.contains(" /"));
    in_blocks.chain(code.flat_map(commands_of)).collect()
}

/// The routers and files that the commands use.
struct Stage {
    router: Router,
    neighbour: Router,
    servers: Vec<Server>,
    /// The router's configuration. Some commands of the documents write other files of that name.
    configuration: String,
}

impl Stage {
    fn new() -> Stage {
        let routing = "[routing]\nnetwork = \"/example\"\nname = \"/example/r1\"\ninsecure = true\nmulticast = false\n\
                       [[flat]]\nprefix = \"/objects\"\n";
        let (router, neighbour) = (Router::start_with(routing), Router::start());
        write_sample(&router.path("song.ogg"), 100_000);
        std::fs::write(router.path("commands.txt"), "face create udp4://192.0.2.1:6363\n").expect("write commands.txt");
        std::fs::write(router.path("network.txt"), "geneva lugano\nlugano zurich\n").expect("write network.txt");
        let rules = "/com/example /upstream/1\n/net/example/video /upstream/2\n";
        std::fs::write(router.path("rules.txt"), rules).expect("write rules.txt");
        let sets = "/classical/concert /upstream/1\n/jazz /upstream/2\n";
        std::fs::write(router.path("sets.txt"), sets).expect("write sets.txt");
        let names = "report.pdf /upstream/1\nsong.ogg /upstream/2\n";
        std::fs::write(router.path("names.txt"), names).expect("write names.txt");
        std::fs::write(router.path("changes.txt"), "a.pdf /upstream/1\nb.pdf -\n").expect("write changes.txt");
        let configuration = std::fs::read_to_string(router.path("byname.toml")).expect("a configuration");
        Stage { router, neighbour, servers: Vec::new(), configuration }
    }

    /// Replaces the words that a reader must replace.
    fn filled_in(&self, command: &str) -> String {
        let uri = format!("udp4://127.0.0.1:{}", self.neighbour.port);
        let face = self.router.json(&format!("face create {uri}"))["face_id"].to_string();
        let command = command
            .replace("udp://router.example.net", &uri)
            .replace("192.0.2.1:6363", &format!("127.0.0.1:{}", self.neighbour.port));
        let words = command.split(' ').map(|word| if word == "300" { &face } else { word });
        words.collect::<Vec<_>>().join(" ")
    }

    fn try_out(&mut self, command: &str) {
        let filled_in = self.filled_in(command);
        let (line, target) = filled_in.split_once(" > ").map_or((&*filled_in, None), |(l, t)| (l, Some(t.to_owned())));
        let line = line.split(" | ").next().unwrap_or_default().to_owned();
        let verb = line.split(' ').next().unwrap_or_default();
        let folder = self.router.path("");
        if verb == "run" {
            assert_eq!(self.second_router(&folder, &line), 0, "byname {command}");
        } else if SERVERS.contains(&verb) {
            self.serve(&line, &folder);
        } else {
            if verb == "reload" {
                std::fs::write(folder.join("byname.toml"), &self.configuration).expect("write configuration");
            }
            // These would run until they are interrupted, or for long.
            let line = match verb {
                "ping" => line + " -c 3 -i 50",
                "trace" => line.replace(" --for 30s", "") + " --for 300ms",
                _ => line,
            };
            let mut program = self.router.command(&line);
            program.current_dir(&folder).env("BYNAME_KEYS", folder.join("keys"));
            let done = finish(program);
            assert_eq!(done.code, 0, "byname {command}: {}{}", done.stdout, done.stderr);
            if let Some(target) = target {
                std::fs::write(folder.join(target), done.stdout).expect("write what it printed");
            }
        }
    }

    /// Starts a server command. It ends with the stage.
    fn serve(&mut self, line: &str, folder: &Path) {
        let routes = |router: &Router| router.json("route list").as_array().map_or(0, Vec::len);
        let before = routes(&self.router);
        let mut program = self.router.command(line);
        program
            .current_dir(folder)
            .env("STATE_DIRECTORY", folder.join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.servers.push(Server::of(program.spawn().expect("start byname")));
        let end = Instant::now() + Duration::from_secs(30);
        while routes(&self.router) <= before {
            assert!(Instant::now() < end, "byname {line} registers nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a router on free ports and interrupts it. Returns its exit code.
    fn second_router(&self, folder: &Path, line: &str) -> i32 {
        let configuration = std::fs::read_to_string(self.neighbour.path("byname.toml")).expect("a configuration");
        let own = folder.join("second.sock");
        let mut lines: Vec<String> =
            configuration.lines().filter(|l| !l.starts_with("port = ")).map(String::from).collect();
        for line in &mut lines {
            if line.starts_with("path = ") {
                *line = format!("path = \"{}\"", own.display());
            } else if line.starts_with("[faces.") && line != "[faces.unix]" {
                *line += "\nlisten = false";
            }
        }
        std::fs::write(folder.join("byname.toml"), lines.join("\n")).expect("write configuration");
        // Without a file, it would listen where other routers do.
        let line = if line.contains("--config") { line.to_owned() } else { format!("{line} --config byname.toml") };
        let mut program = command_at(&format!("unix://{}", own.display()), &line);
        program
            .current_dir(folder)
            .env("STATE_DIRECTORY", folder.join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut process = program.spawn().expect("start byname");
        let end = Instant::now() + Duration::from_secs(30);
        while std::os::unix::net::UnixStream::connect(&own).is_err() {
            let ended = process.try_wait().expect("wait");
            assert!(ended.is_none() && Instant::now() < end, "byname {line}: {ended:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Server::of(process).interrupt()
    }
}

#[test]
fn each_command_that_the_documents_write_does_what_they_say() {
    let mut stage = Stage::new();
    let mut commands: Vec<String> = documents().iter().flat_map(|(_, text)| commands_in(text)).collect();
    for command in WITH_EXAMPLES {
        let help = stage.router.ok(format!("{command} --help").trim());
        let examples = help.split("Examples:").nth(1).unwrap_or_else(|| panic!("{command} --help has examples"));
        commands.extend(examples.lines().flat_map(commands_of).filter(|c| c != "run"));
    }
    commands.retain(|command| !RUN_ELSEWHERE.contains(&command.split(' ').next().unwrap_or_default()));
    assert!(commands.len() >= COMMANDS_MIN, "{commands:#?}");
    for command in &commands {
        stage.try_out(command);
    }
    let fetched = std::fs::read(stage.router.path("song.ogg")).expect("the song");
    assert!(fetched == write_sample(&stage.router.path("original"), 100_000), "it came whole");
}

#[test]
fn commands_are_found_wherever_they_stand() {
    let document = "Say `byname status --json`.\n```sh\nbyname a /x  # no\nbyname ping-server /demo & byname ping /demo\n\
                    sudo byname demo switch    # root\ncargo run -- run\n```\n```toml\nbyname no\n```\nMind `byname trees`, \
                    or `cargo test`.";
    assert_eq!(commands_in(document), ["a /x", "ping-server /demo", "ping /demo", "status --json"]);
}

/// Blocks of commands are run, blocks of TOML are checked as configurations, and all others say why they are not.
#[test]
fn each_block_of_the_documents_is_run_or_says_why_not() {
    let is_command = |line: &str| line.is_empty() || commands_of(line).next().is_some();
    for (path, document) in documents() {
        for block in parts(&document).blocks {
            let is_run = block.language == "toml" || block.language == "sh" && block.text.lines().all(is_command);
            assert!(
                is_run || block.mark.is_some(),
                "{path}:{}: a block of `{}` without a mark",
                block.line,
                block.language
            );
        }
    }
}
