//! The dashboard's API over a running router: who may ask, what is answered, and what commands do.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Router, free_port};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// A router with a dashboard.
struct Served {
    router: Router,
    port: u16,
    token: String,
}

/// An answer: its status, its head and its body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().expect("an error").to_owned()
    }
}

impl Served {
    fn start(configuration: &str) -> Served {
        let port = free_port();
        let router = Router::start_with(&format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n{configuration}"));
        let token = std::fs::read_to_string(router.path("state/dashboard.token")).unwrap_or_default().trim().to_owned();
        Served { router, port, token }
    }

    /// Sends bytes. Returns the answer, with which the connection must end.
    fn exchange(&self, request: &[u8]) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        let mut stream = loop {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "{error}: {}", self.router.log()),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        // The server may answer, and close, before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn request(&self, method: &str, path: &str, fields: &str, body: &str) -> Answer {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Length: {length}\r\n\
             {fields}\r\n{body}",
            self.port
        );
        self.exchange(request.as_bytes())
    }

    fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "", "")
    }

    fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    fn fields(&self) -> String {
        format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", self.token)
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.request("POST", path, &self.fields(), &body.to_string())
    }

    fn command(&self, name: &str, parameters: &Value) -> Value {
        let answer = self.post(&format!("/api/v1/commands/{name}"), parameters);
        assert_eq!(answer.status, 200, "{name} {parameters}: {}", answer.body);
        answer.json()
    }
}

#[test]
fn pages_and_numbers_are_for_everybody_on_this_host() {
    let served = Served::start("");
    let page = served.get("/");
    assert!(page.status == 200 && page.body.contains("<div id=\"app\">"), "{}", page.body);
    for field in ["content-security-policy: default-src 'none'; script-src 'self'", "x-content-type-options: nosniff"] {
        assert!(page.head.contains(field), "{}", page.head);
    }
    let script = served.get("/assets/app.js");
    assert!(script.status == 200 && script.head.contains("content-type: text/javascript"), "{}", script.head);
    let tag = script.head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag");
    let known = served.request("GET", "/assets/app.js", &format!("If-None-Match: {tag}\r\n"), "");
    assert_eq!((known.status, known.body.len()), (304, 0));
    assert_eq!(served.get("/assets/../assets/app.js").status, 404);
    assert_eq!(served.get("/api/v2/live").status, 404);
    assert_eq!(served.request("POST", "/", "", "").status, 405);
    assert!(served.get("/metrics").body.contains("byname_routes"), "metrics go on");

    let live = served.json("/api/v1/live");
    assert_eq!(live["threads"].as_array().map(Vec::len), Some(1));
    assert!(live["round_ns_bounds"].as_array().is_some_and(|bounds| !bounds.is_empty()));
    assert!(live["content_store"]["capacity"].as_u64().is_some_and(|packets| packets > 0));
    assert!(!served.json("/api/v1/channels")["channels"].as_array().expect("a list").is_empty());
    let known = served.json("/api/v1/strategies")["known"].to_string();
    assert!(known.contains("/localhost/nfd/strategy/best-route/v=5"), "{known}");
    let trees = served.json("/api/v1/trees");
    assert_eq!(trees["trees"].as_array().map(Vec::len), Some(1), "{trees}");
    assert_eq!(served.json("/api/v1/descriptors?tags=a,b")["descriptors"], json!([]));
    assert!(served.json("/api/v1/map")["neighbors"].is_array());
    let faces = served.json("/api/v1/faces?limit=1");
    assert_eq!(faces["faces"].as_array().map(Vec::len), Some(1));
    assert!(faces["total"].as_u64() >= Some(1), "{faces}");
    for bad in ["faces?sort=x", "faces?limit=x", "faces/x", "routes?under=%25", "routes/find?after=x", "routes?after=/"]
    {
        assert_eq!(served.get(&format!("/api/v1/{bad}")).status, 400, "{bad}");
    }
    for unknown in ["faces/99999", "nothing", "commands/cs/erase"] {
        assert_eq!(served.get(&format!("/api/v1/{unknown}")).status, 404, "{unknown}");
    }
}

#[test]
fn what_changes_something_needs_the_token_and_the_right_page() {
    let served = Served::start("");
    assert_eq!(served.token.len(), 48);
    let erase = |fields: &str| served.request("POST", "/api/v1/commands/cs/erase", fields, "{\"name\":\"/\"}").status;
    let json = "Content-Type: application/json\r\n";
    assert_eq!(erase(json), 401);
    assert_eq!(erase(&format!("{json}Authorization: Bearer {}x\r\n", served.token)), 401);
    assert_eq!(erase(&format!("{json}Authorization: {}\r\n", served.token)), 401);
    assert_eq!(erase(&served.fields()), 200);
    // A form of another site has another type, and cannot send the token.
    assert_eq!(erase(&served.fields().replace("application/json", "text/plain")), 415);
    let own = format!("Origin: http://127.0.0.1:{}\r\n", served.port);
    assert_eq!(erase(&format!("{}{own}", served.fields())), 200);
    assert_eq!(erase(&format!("{}Origin: http://evil.example\r\n", served.fields())), 403);
    assert_eq!(erase(&format!("{}Origin: null\r\n", served.fields())), 403);
    assert_eq!(erase(&format!("{}Sec-Fetch-Site: cross-site\r\n", served.fields())), 403);
    assert_eq!(served.request("GET", "/api/v1/live", "Origin: http://evil.example\r\n", "").status, 403);
    assert_eq!(served.get("/api/v1/token").status, 401);
    assert_eq!(served.request("GET", "/api/v1/token", &served.fields(), "").status, 200);
    assert_eq!(served.get("/api/v1/traces/0-0").status, 401);
    // DNS rebinding: another site's name leads here.
    let rebound = "GET /api/v1/live HTTP/1.1\r\nHost: evil.example:9626\r\nConnection: close\r\n\r\n";
    let rebound = served.exchange(rebound.as_bytes());
    assert_eq!((rebound.status, rebound.head.contains("access-control")), (421, false));
    assert_eq!(served.exchange(b"GET / HTTP/1.0\r\n\r\n").status, 400);

    let audit = served.json("/api/v1/audit");
    let lines = audit["lines"].as_array().expect("lines");
    assert_eq!(lines.len(), 2, "only what was carried out: {audit}");
    assert_eq!((&lines[0]["command"], &lines[0]["code"]), (&json!("cs/erase"), &json!(200)));
    assert_eq!(lines[0]["remote"], "internal://dashboard");
    let later = served.json(&format!("/api/v1/audit?after={}", audit["last"]));
    assert_eq!(later["lines"], json!([]));
}

#[test]
fn names_of_the_router_are_configured_and_without_a_dashboard_there_is_none() {
    let served = Served::start("[dashboard]\nhosts = [\"router.example\"]\n");
    let request = "GET /api/v1/live HTTP/1.1\r\nHost: router.example\r\nConnection: close\r\n\r\n";
    assert_eq!(served.exchange(request.as_bytes()).status, 200);
    let off = Served::start("[dashboard]\nenabled = false\n");
    assert!(off.token.is_empty());
    assert_eq!(off.get("/api/v1/live").status, 404);
    assert!(off.get("/").body.contains("metrics are at /metrics"));
}

#[test]
fn a_reload_changes_who_may_ask_and_the_token_and_turns_it_off_and_on() {
    let served = Served::start("[dashboard]\nhosts = [\"old.example\"]\n");
    let configuration = served.router.path("byname.toml");
    let before = std::fs::read_to_string(&configuration).expect("read");
    let reload = |dashboard: &str| {
        let text = before.replace("[dashboard]\nhosts = [\"old.example\"]\n", dashboard);
        std::fs::write(&configuration, text).expect("written");
        served.router.ok("reload")
    };
    let as_host = |host: &str| {
        let request = format!("GET /api/v1/live HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        served.exchange(request.as_bytes()).status
    };
    let with = |token: &str| served.request("GET", "/api/v1/token", &format!("Authorization: Bearer {token}\r\n"), "");
    assert_eq!((as_host("old.example"), as_host("new.example")), (200, 421));

    reload("[dashboard]\nhosts = [\"new.example\"]\n");
    assert_eq!((as_host("old.example"), as_host("new.example")), (421, 200));
    assert_eq!(with(&served.token).status, 200, "pages that are open go on");

    reload("[dashboard]\nenabled = false\n");
    assert_eq!(served.get("/api/v1/live").status, 404);
    assert!(served.get("/metrics").body.contains("byname_routes"), "metrics go on");

    let other = served.router.path("other.token");
    std::fs::write(&other, "another-token-0123456789\n").expect("written");
    std::fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    reload(&format!("[dashboard]\ntoken_file = \"{}\"\n", other.display()));
    assert_eq!((with(&served.token).status, with("another-token-0123456789").status), (401, 200));
    assert_eq!(served.json("/api/v1/map")["routing"], Value::Null, "routing is off");
}

#[test]
fn commands_go_through_managements_door() {
    let served = Served::start("");
    let face = served.command("faces/create", &json!({"remote_uri": "udp4://127.0.0.1:9", "persistency": "permanent"}));
    let face = face["face_id"].as_u64().expect("a number");
    let route = json!({"name": "/a/b", "face_id": face, "origin": "static", "cost": 7, "capture": true});
    served.command("rib/register", &route);
    let routes = served.router.json("route list /a/b");
    assert_eq!(
        (&routes[0]["cost"], &routes[0]["capture"], &routes[0]["origin"]),
        (&json!(7), &json!(true), &json!("static"))
    );
    let explained = served.json("/api/v1/explain?name=%2Fa%2Fb%2Fc");
    assert_eq!((&explained["rule"], &explained["nexthops"][0]["face_id"]), (&json!("/a/b"), &json!(face)));
    assert_eq!(explained["nexthops"][0]["remote_uri"], "udp4://127.0.0.1:9");
    served.command("strategy-choice/set", &json!({"name": "/a", "strategy": "/localhost/nfd/strategy/multicast"}));
    let choices = served.json("/api/v1/strategies?search=%2Fa")["choices"].clone();
    assert_eq!(choices[0]["strategy"], "/localhost/nfd/strategy/multicast/v=5");
    served.command("strategy-choice/unset", &json!({"name": "/a"}));
    assert_eq!(served.command("cs/config", &json!({"capacity": 77, "admit": false}))["capacity"], 77);
    assert_eq!(served.router.json("cs info")["admit"], false);
    served.command("rib/unregister", &json!({"name": "/a/b", "face_id": face, "origin": "static"}));
    assert_eq!(served.router.run("route show /a/b").code, 6);
    served.command("faces/destroy", &json!({"face_id": face}));
    assert_eq!(served.get(&format!("/api/v1/faces/{face}")).status, 404);

    // Management's own refusals, in its words.
    let refused = |name: &str, parameters: Value| {
        let answer = served.post(&format!("/api/v1/commands/{name}"), &parameters);
        (answer.status, answer.error())
    };
    let (status, text) = refused("rib/register", json!({"name": "/a", "face_id": 4711}));
    assert_eq!((status, text.as_str()), (410, "Face not found"));
    assert_eq!(refused("rib/register", json!({"face_id": face})).0, 400);
    assert_eq!(refused("rib/register", json!({"name": "/localhost/nfd/x", "face_id": 1})).0, 403);
    assert_eq!(refused("rib/register", json!({"name": "/a"})).0, 403, "the dashboard's own face is no nexthop");
    assert_eq!(refused("faces/destroy", json!({"face_id": 240})).0, 403);
    assert_eq!(refused("faces/create", json!({"remote_uri": "udp4://127.0.0.1:9", "name": "/a"})).0, 400);
    assert_eq!(refused("faces/create", json!({"remote_uri": "nothing"})).0, 400);
    assert_eq!(refused("faces/create", json!({"remote": "udp4://127.0.0.1:9"})).0, 400);
    for not_offered in ["config/reload", "tags/advertise", "fib/add-nexthop", "trace/start", "x/y"] {
        assert_eq!(refused(not_offered, json!({})).0, 404, "{not_offered}");
    }
}

#[test]
fn a_stream_face_that_cannot_connect_is_told_with_its_reason() {
    let served = Served::start("");
    let closed = free_port();
    let answer =
        served.post("/api/v1/commands/faces/create", &json!({"remote_uri": format!("tcp4://127.0.0.1:{closed}")}));
    assert_eq!(answer.status, 504, "{}", answer.body);
    assert!(answer.error().contains("refused"), "{}", answer.error());
}

#[test]
fn rights_hold_for_the_dashboard_too() {
    let rights = "[[authorization]]\nfrom = \"host\"\nsigner = \"any\"\nmodules = [\"faces\", \"rib\"]\nprefixes = [\"/mine\"]\n";
    let served = Served::start(rights);
    let refused = served.post("/api/v1/commands/cs/erase", &json!({"name": "/mine"}));
    assert_eq!(refused.status, 403, "{}", refused.body);
    let face = served.command("faces/create", &json!({"remote_uri": "udp4://127.0.0.1:9"}))["face_id"].clone();
    served.command("rib/register", &json!({"name": "/mine/a", "face_id": face}));
    assert_eq!(served.post("/api/v1/commands/rib/register", &json!({"name": "/a", "face_id": face})).status, 403);
    assert_eq!(served.post("/api/v1/traces", &json!({"prefix": "/mine"})).status, 403);
    let audit = served.json("/api/v1/audit");
    let codes: Vec<u64> = audit["lines"].as_array().unwrap().iter().filter_map(|line| line["code"].as_u64()).collect();
    assert_eq!(codes, [403, 200, 200, 403, 403]);
}

#[test]
fn many_routes_come_in_pages() {
    const ROUTES: usize = 3000;
    let served = Served::start("");
    let lines: String = (0..ROUTES).map(|n| format!("route add /many/{}/n{n} udp4://127.0.0.1:9\n", n % 7)).collect();
    let file = served.router.path("batch");
    std::fs::write(&file, format!("face create udp4://127.0.0.1:9\n{lines}")).expect("written");
    served.router.ok(&format!("-f {}", file.display()));

    let children = served.json("/api/v1/routes?under=%2Fmany&self=1");
    let names: Vec<&str> =
        children["nodes"].as_array().unwrap().iter().filter_map(|node| node["name"].as_str()).collect();
    assert_eq!(names, ["/many", "/many/0", "/many/1", "/many/2", "/many/3", "/many/4", "/many/5", "/many/6"]);
    assert_eq!((&children["nodes"][1]["below"], &children["nodes"][1]["below_more"]), (&json!(100), &json!(true)));
    let (mut seen, mut after, mut pages) = (std::collections::BTreeSet::new(), String::new(), 0);
    loop {
        let page = served.json(&format!("/api/v1/routes?under=%2Fmany%2F0&limit=50&after={after}"));
        let nodes = page["nodes"].as_array().expect("nodes");
        assert!(nodes.len() <= 50 && nodes.iter().all(|node| node["routes"][0]["face_id"].as_u64() >= Some(256)));
        seen.extend(nodes.iter().map(|node| node["name"].as_str().expect("a name").to_owned()));
        pages += 1;
        match page["next"].as_str() {
            Some(next) => after = next.replace('/', "%2F"),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages), (ROUTES.div_ceil(7), 9));
    let (mut found, mut after) = (0, String::new());
    loop {
        let page = served.json(&format!("/api/v1/routes/find?part=n29&limit=20&after={after}"));
        found += page["nodes"].as_array().expect("nodes").len();
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, (0..ROUTES).filter(|n| format!("n{n}").contains("n29")).count());
    let faces = served.json("/api/v1/faces?search=127.0.0.1%3A9");
    assert_eq!(faces["found"], 1, "{faces}");
}

#[test]
fn a_trace_shows_packets_and_makes_room_for_another() {
    let served = Served::start("");
    let start = |prefix: &str| served.post("/api/v1/traces", &json!({"prefix": prefix, "only_dropped": false}));
    let trace = start("/traced").json()["id"].as_str().expect("an id").to_owned();
    let read = |id: &str| served.request("GET", &format!("/api/v1/traces/{id}"), &served.fields(), "");
    assert_eq!(read(&trace).json()["events"], json!([]));
    let _server = served.router.serve("ping-server /traced", "/traced/ping", b"");
    assert!(served.router.reaches("/traced"));
    let (mut events, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while !events.iter().any(|event: &Value| event["subject"] == "data") {
        assert!(Instant::now() < deadline, "{events:?}");
        events.extend(read(&trace).json()["events"].as_array().expect("events").clone());
    }
    let interest = events.iter().find(|event| event["subject"] == "interest" && event["rule"] == "/traced/ping");
    assert!(interest.is_some_and(|event| event["sent"][0]["face_id"].as_u64() >= Some(256)), "{events:?}");
    // Two pages may trace, and a third one not.
    assert_eq!(start("/other").status, 200);
    assert_eq!(start("/third").status, 409);
    let stop = |id: &str| served.request("DELETE", &format!("/api/v1/traces/{id}"), &served.fields(), "").status;
    assert_eq!((stop(&trace), read(&trace).status), (200, 404));
    assert_eq!(start("/third").status, 200);
    for strange in ["9-0", "x", "0-99", "-", "18446744073709551616-1"] {
        assert_eq!(read(strange).status, 404, "{strange}");
    }
    assert_eq!(served.post("/api/v1/traces", &json!({"prefix": "%"})).status, 400);
}

#[test]
fn hostile_requests_are_refused_and_others_served() {
    let served = Served::start("");
    let big = "x".repeat(70_000);
    assert_eq!(served.request("POST", "/api/v1/commands/cs/erase", &served.fields(), &big).status, 413);
    for body in ["", "{", "null", "[[[[", "{\"name\":\"%\"}", "{\"count\":-1}", "{\"count\":1e99}", "\u{1}"] {
        let answer = served.request("POST", "/api/v1/commands/cs/erase", &served.fields(), body);
        assert_eq!(answer.status, 400, "{body}");
    }
    let deep = format!("{{\"name\":{}1{}}}", "[".repeat(20_000), "]".repeat(20_000));
    assert_eq!(served.request("POST", "/api/v1/commands/cs/erase", &served.fields(), &deep).status, 400);
    let long = format!("/api/v1/routes?under=%2F{}", "y".repeat(9_000));
    assert_eq!(served.get(&long).status, 400);
    let depths = format!("/api/v1/explain?name={}", "%2Fa".repeat(2_000));
    assert!(matches!(served.get(&depths).status, 200 | 400 | 414));
    assert_eq!(served.get(&format!("/api/v1/routes/find?part={}", "z".repeat(300))).status, 400);
    assert_eq!(served.get("/api/v1/faces?offset=18446744073709551615&limit=18446744073709551615").status, 200);
    assert_eq!(served.get("/api/v1/strategies?offset=18446744073709551615").status, 200);
    assert_eq!(served.get("/api/v1/descriptors?offset=18446744073709551615").status, 400);
    let tags = format!("/api/v1/descriptors?tags={}", "a,b%2C".repeat(500));
    assert!(matches!(served.get(&tags).status, 200 | 400));
    // A body that does not come holds only its own connection.
    let mut slow = TcpStream::connect(("127.0.0.1", served.port)).expect("it listens");
    let head = format!(
        "POST /api/v1/commands/cs/erase HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 10\r\n\r\n",
        served.fields()
    );
    slow.write_all(head.as_bytes()).expect("sent");
    assert_eq!(served.get("/api/v1/live").status, 200);
    assert!(!served.router.log().contains("panic"), "{}", served.router.log());
}

#[test]
fn the_command_prints_the_address_and_the_token_stays() {
    let served = Served::start("");
    let config = served.router.path("byname.toml");
    let mut command = served.router.command(&format!("dashboard --config {} --no-open", config.display()));
    command.env("STATE_DIRECTORY", served.router.path("state"));
    let printed = common::finish(command);
    assert_eq!(
        printed.stdout,
        format!("http://127.0.0.1:{}/#token={}\n", served.port, served.token),
        "{}",
        printed.stderr
    );
    let Served { router, port, token } = served;
    let again = Served { router: router.start_again(), port, token };
    assert_eq!(again.request("GET", "/api/v1/token", &again.fields(), "").status, 200, "pages go on after a restart");
    let path = again.router.path("state/dashboard.token");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("set");
    let Served { router, port, token } = again;
    let exposed = Served { router: router.start_again(), port, token };
    assert_eq!(exposed.request("GET", "/api/v1/token", &exposed.fields(), "").status, 403);
    assert!(exposed.router.log().contains("others may read it"), "{}", exposed.router.log());
    assert!(exposed.json("/api/v1/live")["routes"].is_u64(), "everybody may still look");
}
