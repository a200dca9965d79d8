//! Measures each library in a process of its own.

use std::fmt::Debug;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::keys::{self, Prepared, Table};
use super::{Answer, Asker, Options, Record, Subject, flat, ip, libraries, prefix, tags};
use crate::harness;
use crate::machine::cores;
use crate::progress::Progress;
use crate::table::word;
use crate::timing::Spread;
use crate::workload::Random;

/// Questions between two readings of the clock.
const TOGETHER: usize = 1024;
/// Keys that are removed or added together.
const BATCH: usize = 1000;
/// Answers that are compared at most.
const CHECKED_MAX: usize = 1 << 17;

/// Measures the libraries that were asked for, one after the other.
pub fn in_processes(options: &Options, progress: Progress) -> anyhow::Result<Vec<Record>> {
    ensure!(options.seconds > 0.0 && options.seconds.is_finite(), "--seconds must be more than 0");
    let known = |name: &String| options.tables.iter().any(|table| libraries(*table).contains(&name.as_str()));
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        let all: Vec<_> = options.tables.iter().flat_map(|table| libraries(*table)).collect();
        bail!("no library is called '{unknown}'; these are measured: {all:?}");
    }
    let mut records: Vec<Record> = Vec::new();
    for &table in &options.tables {
        let mut last = 0;
        for &keys in &options.keys {
            let of_table = libraries(table)
                .iter()
                .filter(|name| options.only.is_empty() || options.only.iter().any(|wanted| wanted == *name));
            let prepared = Prepared::new(table, &options.data, options.made, keys, options.seed)?;
            // A list that has fewer keys was measured as a whole before.
            if prepared.keys.len() == last {
                continue;
            }
            last = prepared.keys.len();
            let folder = tempfile::tempdir().context("cannot make a folder for keys")?;
            prepared.write(folder.path())?;
            drop(prepared);
            for name in of_table {
                let _bar = progress.spinner(&format!("{}: {last} keys in {name}", word(table)));
                records.push(in_process(options, table, name, folder.path())?);
            }
        }
    }
    Ok(records)
}

fn in_process(options: &Options, table: Table, library: &str, folder: &Path) -> anyhow::Result<Record> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["libraries", "--tables", &word(table), "--only", library]);
    command.arg("--prepared").arg(folder).args(options.made.then_some("--made"));
    command.args(["--seconds", &options.seconds.to_string(), "--repetitions", &options.repetitions.to_string()]);
    command.args(["--seed", &options.seed.to_string(), "--threads", &options.threads.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().context("cannot start this program again")?;
    ensure!(output.status.success(), "the process that measured {library} failed");
    serde_json::from_slice(&output.stdout).with_context(|| format!("the process that measured {library} said nothing"))
}

/// Measures one library in this process.
pub fn here(options: &Options, table: Table, prepared: &Prepared, library: &str) -> anyhow::Result<Record> {
    let names = match (options.made, table) {
        (true, _) => "made",
        (_, Table::Prefix) => "domains_tb0hdan.txt.xz as paths",
        (_, Table::Flat) => "domains_tb0hdan.txt.xz",
        (_, Table::Ip) => "routes_ipv4_20080501.dat.gz",
        (_, Table::Tags) => "tags_cldr.txt.xz",
    };
    let Prepared { keys, questions } = prepared;
    let key_bytes = if table == Table::Ip { 5.0 } else { keys.mean_bytes() };
    let about = About { table, library: library.to_owned(), names, keys: keys.len(), key_bytes };
    let mut texts = Vec::with_capacity(questions.len());
    texts.extend(questions.iter());
    match table {
        Table::Prefix => {
            let right = |some: &[&str]| keys::right_prefixes(keys, some);
            measure(options, about, &texts, || prefix::build(library, keys), right)
        }
        Table::Flat => {
            let right = |some: &[&str]| flat::right(keys, some);
            measure(options, about, &texts, || flat::build(library, keys), right)
        }
        Table::Ip => {
            let (routes, addresses) = (keys::parse_routes(keys)?, keys::parse_addresses(questions)?);
            let right = |some: &[u32]| keys::right_routes(&routes, some);
            measure(options, about, &addresses, || ip::build(library, &routes), right)
        }
        Table::Tags => {
            let mut split = Vec::with_capacity(texts.len());
            split.extend(texts.iter().map(|question| question.split('|').collect::<Box<[&str]>>()));
            let mut questions: Vec<&[&str]> = Vec::with_capacity(split.len());
            questions.extend(split.iter().map(|question| &**question));
            let right = |some: &[&[&str]]| tags::right(keys, some);
            measure(options, about, &questions, || tags::build(library, keys), right)
        }
    }
}

/// What is measured.
struct About {
    table: Table,
    library: String,
    names: &'static str,
    keys: usize,
    key_bytes: f64,
}

fn measure<'k, Q: Copy + Debug + Sync>(
    options: &Options,
    about: About,
    questions: &[Q],
    build: impl FnOnce() -> anyhow::Result<Box<dyn Subject<Q> + 'k>>,
    right: impl FnOnce(&[Q]) -> Vec<Answer>,
) -> anyhow::Result<Record> {
    cores::pin(0);
    let started = Instant::now();
    let (mut subject, resident_bytes) = harness::growth(build)?;
    let build_s = started.elapsed().as_secs_f64();
    let some = &questions[..questions.len().min(CHECKED_MAX)];
    let mut answers = Vec::with_capacity(some.len());
    let mut asker = subject.asker();
    asker.ask(some, &mut answers);
    let mut together = Vec::new();
    let has_together = asker.ask_together(&some[..some.len().min(TOGETHER)], &mut together);
    let expected = right(some);
    ensure!(answers.len() == some.len(), "{} answered {} of {}", about.library, answers.len(), some.len());
    let mut wrong = answers.iter().zip(&expected).filter(|(found, right)| found != right).count();
    wrong += together.iter().zip(&expected).filter(|(found, right)| found != right).count();
    if let Some(at) = answers.iter().zip(&expected).position(|(found, right)| found != right) {
        eprintln!("{}: {:?}: {:?} in place of {:?}", about.library, some[at], answers[at], expected[at]);
    }
    let repetition = Duration::from_secs_f64(options.seconds / f64::from(options.repetitions));
    let lookups = Spread::of(&rates(options.repetitions, repetition, questions, |some| {
        answers.clear();
        asker.ask(some, &mut answers);
    }));
    let burst_lookups_per_s = has_together.then(|| {
        let rates = rates(options.repetitions, repetition, questions, |some| {
            answers.clear();
            asker.ask_together(some, &mut answers);
        });
        Spread::of(&rates).median
    });
    drop(asker);
    let on_threads = |ask: Ask<Q>| on_threads(options, &*subject, questions, ask);
    let threads_lookups_per_s = on_threads(|asker, some, answers| asker.ask(some, answers));
    let threads_burst_lookups_per_s = has_together.then(|| {
        on_threads(|asker, some, answers| {
            let _ = asker.ask_together(some, answers);
        })
    });
    let updates_per_s = updates(&mut *subject, about.keys, options)?;
    Ok(Record {
        table: word(about.table),
        library: about.library,
        names: about.names.to_owned(),
        keys: about.keys as u64,
        key_bytes: about.key_bytes,
        build_s,
        resident_bytes,
        bytes_per_key: resident_bytes as f64 / about.keys as f64,
        repetitions: options.repetitions,
        lookups_per_s: lookups.median,
        lookups_per_s_min: lookups.min,
        lookups_per_s_max: lookups.max,
        burst_lookups_per_s,
        threads: options.threads,
        threads_lookups_per_s,
        threads_burst_lookups_per_s,
        updates_per_s,
        checked: (some.len() + together.len()) as u64,
        wrong: wrong as u64,
    })
}

/// Questions a second, in each repetition.
fn rates<Q: Copy>(repetitions: u32, repetition: Duration, questions: &[Q], mut ask: impl FnMut(&[Q])) -> Vec<f64> {
    let mut next = questions.chunks(TOGETHER).cycle();
    let mut one = |_| {
        let (started, mut asked) = (Instant::now(), 0);
        while started.elapsed() < repetition {
            let some = next.next().unwrap_or_default();
            ask(some);
            asked += some.len();
        }
        asked as f64 / started.elapsed().as_secs_f64()
    };
    (0..repetitions).map(&mut one).collect()
}

/// One way to ask.
type Ask<Q> = fn(&mut dyn Asker<Q>, &[Q], &mut Vec<Answer>);

/// Questions a second of all threads together: the median of the repetitions. Threads begin at different questions.
fn on_threads<Q: Copy + Sync>(options: &Options, subject: &dyn Subject<Q>, questions: &[Q], ask: Ask<Q>) -> f64 {
    let repetition = Duration::from_secs_f64(options.seconds / f64::from(options.repetitions));
    let threads = options.threads as usize;
    let start = Barrier::new(threads);
    let askers: Vec<_> = (0..threads).map(|_| subject.asker()).collect();
    let of_threads: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let begun: Vec<_> = askers
            .into_iter()
            .enumerate()
            .map(|(number, mut asker)| {
                let (start, questions) = (&start, questions);
                scope.spawn(move || {
                    cores::pin(number);
                    let (before, after) = questions.split_at(questions.len() * number / threads);
                    let own: Vec<Q> = [after, before].concat();
                    let mut answers = Vec::with_capacity(TOGETHER);
                    let mut ask = |some: &[Q]| {
                        answers.clear();
                        ask(&mut *asker, some, &mut answers);
                    };
                    ask(&own[..own.len().min(TOGETHER)]);
                    start.wait();
                    rates(options.repetitions, repetition, &own, ask)
                })
            })
            .collect();
        begun.into_iter().map(|thread| thread.join().expect("lookups do not panic")).collect()
    });
    let sums = (0..options.repetitions as usize).map(|i| of_threads.iter().map(|rates| rates[i]).sum());
    Spread::of(&sums.collect::<Vec<f64>>()).median
}

/// Changes a second, if the library can change its table: random keys go in a batch, and come again.
fn updates<Q>(subject: &mut dyn Subject<Q>, keys: usize, options: &Options) -> anyhow::Result<Option<f64>> {
    let mut random = Random::new(options.seed ^ 7);
    let (started, mut changed) = (Instant::now(), 0);
    let duration = Duration::from_secs_f64(options.seconds);
    while started.elapsed() < duration {
        let mut batch: Vec<usize> = (0..BATCH).map(|_| random.below(keys as u64) as usize).collect();
        batch.sort_unstable();
        batch.dedup();
        if !(subject.change(&batch, true)? && subject.change(&batch, false)?) {
            return Ok(None);
        }
        changed += 2 * batch.len();
    }
    Ok(Some(changed as f64 / started.elapsed().as_secs_f64()))
}
