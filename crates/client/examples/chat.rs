//! A chat without a server, by State Vector Sync. Start it several times, each with another name.
//!
//! `cargo run -p byname-client --example chat alice`

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byname_client::session::GroupId;
use byname_client::sync::{SyncOptions, publication_name};
use byname_client::{Client, interest};
use byname_wire::data::DataBuilder;
use byname_wire::{Component, Name};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A member of the chat.
pub struct Member {
    client: Client,
    group: Name,
    id: GroupId,
    node: Name,
    /// What this member has said, by the names of its publications.
    said: Arc<Mutex<BTreeMap<Name, Vec<u8>>>>,
}

impl Member {
    /// Joins the chat under a name.
    pub fn join(mut client: Client, who: &str) -> Result<Member, Error> {
        let group: Name = "/example/chat".parse()?;
        let node = Name::from_components([Component::generic(b"example"), Component::generic(who.as_bytes())]);
        let said = Arc::new(Mutex::new(BTreeMap::<Name, Vec<u8>>::new()));
        let lines = said.clone();
        client.produce(&node, move |interest| {
            let name = interest.name.to_name();
            let line = lines.lock().ok()?.get(&name)?.clone();
            Some(DataBuilder::new(name).content(line))
        })?;
        let id = client.join(&group, &node, SyncOptions::default());
        Ok(Member { client, group, id, node, said })
    }

    /// Says a line to all members.
    pub fn say(&mut self, line: &str) -> Result<(), Error> {
        let sync = self.client.group(self.id).ok_or("this member has left")?.sync();
        let (boot, number) = (sync.boot(), sync.state().number(&self.node, sync.boot()) + 1);
        let name = publication_name(&self.node, &self.group, boot, number);
        self.said.lock().map_err(|_| "the producer has failed")?.insert(name, line.as_bytes().to_vec());
        self.client.publish_in(self.id);
        Ok(())
    }

    /// What others have said. Waits for it at most `wait`.
    pub fn hear(&mut self, wait: Duration) -> Result<Vec<String>, Error> {
        let mut heard = Vec::new();
        for update in self.client.updates(self.id, wait)? {
            // Who comes late need not read everything.
            for number in update.first.max(update.last.saturating_sub(9))..=update.last {
                let name = publication_name(&update.node, &self.group, update.boot, number);
                let Ok(data) = self.client.express(&interest(&name).lifetime_ms(1000), 3) else { continue };
                heard.push(format!("{}: {}", update.node, String::from_utf8_lossy(data.data().content)));
            }
        }
        Ok(heard)
    }
}

/// The lines that a person types.
fn typed() -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

fn main() -> Result<(), Error> {
    let who = std::env::args().nth(1).ok_or("usage: chat NAME")?;
    let mut member = Member::join(Client::of_environment()?, &who)?;
    let lines = typed();
    loop {
        match lines.try_recv() {
            Ok(line) => member.say(&line)?,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        member.hear(Duration::from_millis(100))?.iter().for_each(|line| println!("{line}"));
    }
}
