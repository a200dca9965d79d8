//! Chunks in folders and in object stores, against a small server of HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use byname_fleet::block_on;
use byname_fleet::table::Digest;
use byname_fleet::table::source::Source;
use byname_fleet::table::store::FILE_BYTES_MAX;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a server has, by path, and what it was asked for.
#[derive(Default)]
struct Served {
    objects: BTreeMap<String, Vec<u8>>,
    asked: Vec<String>,
}

/// Serves GET, HEAD and PUT, one request for each connection. Returns the URL.
async fn server(served: Arc<Mutex<Served>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(answer(stream, served.clone()));
        }
    });
    url
}

async fn answer(stream: TcpStream, served: Arc<Mutex<Served>>) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await.expect("a request");
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("a header");
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    let mut words = first.split(' ');
    let (method, path) = (words.next().expect("a method"), words.next().expect("a path").to_owned());
    let (status, found) = {
        let mut served = served.lock().expect("no panic");
        served.asked.push(format!("{method} {path}"));
        match method {
            "PUT" => {
                served.objects.insert(path, body);
                ("201 Created", Vec::new())
            }
            _ if path.starts_with("/broken/") => ("403 Forbidden", b"no".to_vec()),
            _ => match served.objects.get(&path) {
                Some(bytes) => ("200 OK", bytes.clone()),
                None => ("404 Not Found", Vec::new()),
            },
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nLast-Modified: Thu, 26 Nov 2026 20:00:00 GMT\r\nConnection: close\r\n\r\n",
        found.len()
    );
    let mut reply = head.into_bytes();
    if method != "HEAD" {
        reply.extend(found);
    }
    // Whoever has seen enough may have gone.
    let _ = stream.get_mut().write_all(&reply).await;
}

fn opened(place: &str) -> Source {
    place.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn chunks_go_to_object_stores_and_come_from_them_checked() {
    block_on(async {
        let served = Arc::new(Mutex::new(Served::default()));
        let url = server(served.clone()).await;
        let store = opened(&format!("{url}/chunks/of/main"));
        assert_eq!(store.to_string(), format!("{url}/chunks/of/main"));
        let bytes = b"a chunk".to_vec();
        let digest = Digest::of(&bytes);
        let place = format!("/chunks/of/main/{digest}");
        assert_eq!(store.read(digest).await.expect("an answer"), None);
        assert!(store.write(digest, &bytes).await.expect("written"));
        assert_eq!(served.lock().expect("no panic").objects.get(&place), Some(&bytes));
        assert_eq!(store.read(digest).await.expect("an answer"), Some(bytes.clone()));
        // What is there is not sent again.
        assert!(!store.write(digest, &bytes).await.expect("there"));
        let puts = served.lock().expect("no panic").asked.iter().filter(|asked| asked.starts_with("PUT")).count();
        assert_eq!(puts, 1);
        // A store is not trusted: neither with other bytes, nor with too many.
        served.lock().expect("no panic").objects.insert(place.clone(), b"a junkc".to_vec());
        assert_eq!(store.read(digest).await.expect("an answer"), None);
        served.lock().expect("no panic").objects.insert(place, vec![0; FILE_BYTES_MAX + 1]);
        let error = store.read(digest).await.expect_err("too long").to_string();
        assert!(error.contains("more than"), "{error}");
        let error = opened(&format!("{url}/broken")).read(digest).await.expect_err("refused").to_string();
        assert!(error.starts_with(&url), "{error}");
    })
    .expect("a runtime");
}

#[test]
fn places_are_folders_or_urls_and_secrets_are_not_shown() {
    block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = b"a chunk".to_vec();
        let digest = Digest::of(&bytes);
        let path = folder.path().join("chunks");
        let plain = opened(path.to_str().expect("text"));
        assert!(
            plain.write(digest, &bytes).await.expect("written") && !plain.write(digest, &bytes).await.expect("there")
        );
        assert_eq!(opened(&format!("file://{}", path.display())).read(digest).await.expect("read"), Some(bytes));
        for (bad, part) in
            [("ftp://example/chunks", "neither"), ("file://host/chunks", "file:///PATH"), ("s3://", "neither")]
        {
            let error = bad.parse::<Source>().expect_err(bad).to_string();
            assert!(error.contains(part), "{bad}: {error}");
        }
        let secret = opened("https://alice:secret@127.0.0.1:1/chunks?sig=secret");
        assert!(!format!("{secret} {secret:?}").contains("secret"), "{secret:?}");
        let error = secret.read(digest).await.expect_err("nobody is there").to_string();
        assert!(!error.contains("alice") && !error.contains("sig="), "{error}");
    })
    .expect("a runtime");
}
