//! Size of the messages that a controller sends to a switch for a change.
//!
//! Differs: the paper computes the entropy of a message. This experiment measures real messages with their sequence
//! numbers and seals, with one change or many in each, and computes the same entropy.

use byname_lookup::EntryId;
use byname_lookup::flat::message::{Sender, Sent};
use byname_lookup::flat::othello::{self, Network, NetworkChange};
use byname_wire::Digest;

use crate::experiments::{Context, Experiment, Needs, counting};
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-table2",
    title: "update messages of flat tables",
    source: "[Concise §6.3.2] Table 2",
    needs: Needs { rules: &[300_000, 1_400_000], quick_rules: &[20_000], bytes_per_rule: 80, data: &[], minutes: 1 },
    run,
};

/// Size limit of a message, in bytes: fits any network.
const MESSAGE_BYTES: usize = 1400;
/// Number of changes of each kind.
const CHANGES: u64 = 4096;
/// Number of changes that are sent together.
const BATCHES: [usize; 2] = [1, 256];

/// Number of names, bits of an action, and the paper's bits for an addition and for a change of action.
const PAPER: [(u64, u32, [f64; 2]); 2] = [(300_000, 8, [75.2, 65.6]), (1_400_000, 16, [107.2, 88.8])];

#[derive(serde::Serialize)]
struct Messages {
    names: u64,
    action_bits: u32,
    what: &'static str,
    batch: usize,
    bytes_per_change: f64,
    entropy_bits_per_change: f64,
    /// Bytes of blocks that were rebuilt meanwhile, divided among all changes.
    block_bytes_per_change: f64,
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let heads = [
        "names",
        "bits",
        "what",
        "changes in a batch",
        "bytes a change",
        "entropy, bits",
        "[Concise] bits",
        "rebuilt parts, bytes",
    ];
    let mut table = Table::new(&heads);
    let mut bars = Vec::new();
    for names in context.rules() {
        let action_bits = if names > 1_000_000 { 16 } else { 8 };
        let paper = PAPER.iter().find(|paper| (paper.0, paper.1) == (names, action_bits));
        for batch in BATCHES {
            let [added, altered] = measure(names, action_bits, batch)?;
            for (i, (what, sent)) in [("addition", added), ("change of action", altered)].into_iter().enumerate() {
                let changes = sent.changes.max(1) as f64;
                let messages = Messages {
                    names,
                    action_bits,
                    what,
                    batch,
                    bytes_per_change: sent.change_bytes as f64 / changes,
                    entropy_bits_per_change: sent.entropy_bits / changes,
                    block_bytes_per_change: sent.block_bytes as f64 / CHANGES as f64,
                };
                context.record(&messages)?;
                table.row([
                    table::count(names),
                    action_bits.to_string(),
                    what.to_owned(),
                    batch.to_string(),
                    format!("{:.1}", messages.bytes_per_change),
                    format!("{:.1}", messages.entropy_bits_per_change),
                    table::optional(paper.map(|paper| paper.2[i]), 1),
                    format!("{:.1}", messages.block_bytes_per_change),
                ]);
                bars.push((format!("{what}, {} names", table::count(names)), batch, messages.bytes_per_change));
            }
        }
    }
    print!("{table}");
    let of_one = |batch: usize| bars.iter().filter(move |bar| bar.1 == batch);
    let labels = of_one(BATCHES[0]).map(|bar| bar.0.clone()).collect();
    let mut chart = Chart::bars("Messages", labels, "bytes a change");
    for batch in BATCHES {
        chart.bar(format!("{batch} in a batch"), of_one(batch).map(|bar| Some(bar.2)));
    }
    context.plot(&chart)
}

fn name(i: u64) -> Digest {
    counting::KEY.digest_bytes(&i.to_le_bytes())
}

/// Applies additions, and then changes of action, and counts the messages sent for them.
fn measure(names: u64, action_bits: u32, batch: usize) -> anyhow::Result<[Sent; 2]> {
    let entry = |i: u64| EntryId((i * 7 % (1 << action_bits)) as u32);
    let digests: Vec<_> = (0..names).map(name).collect();
    let entries: Vec<_> = (0..names).map(entry).collect();
    let options = othello::Options { entry_bits: action_bits, ..Default::default() };
    let mut network = Network::construct(options, &digests, &[&entries])?;
    let mut sender = Sender::new(counting::KEY, MESSAGE_BYTES);
    network.feed_whole(0, &mut sender, &mut |_| ());
    let set = |i: u64, entry: EntryId| NetworkChange::Set(name(i), [entry].into());
    let added = (names..names + CHANGES).map(|i| set(i, entry(i))).collect::<Vec<_>>();
    let altered = (0..CHANGES).map(|i| set(i * (names / CHANGES), entry(i + 1))).collect::<Vec<_>>();
    let mut told = |changes: &[NetworkChange]| -> anyhow::Result<Sent> {
        let mut all = Sent::default();
        for changes in changes.chunks(batch) {
            network.apply(changes)?;
            let sent = network.feed(0, &mut sender, &mut |_| ());
            all.changes += sent.changes;
            all.change_bytes += sent.change_bytes;
            all.entropy_bits += sent.entropy_bits;
            all.block_bytes += sent.block_bytes;
        }
        Ok(all)
    };
    Ok([told(&added)?, told(&altered)?])
}
