//! Whole packets through one core, technique by technique, and through several cores.

use super::SO;
use crate::experiments::{Context, Experiment, Needs};
use crate::forward::{Mix, Record, Variant};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::table::{self, Table};

pub(super) const FIGURE_10: Experiment = Experiment {
    id: "so-fig10",
    title: "whole packets on one core, technique by technique",
    source: "[So §4.4] Figure 10",
    needs: Needs { rules: &[16_000_000], quick_rules: &[20_000], bytes_per_rule: 600, data: &[], minutes: 10 },
    run: figure_10,
};

pub(super) const FIGURE_11: Experiment = Experiment {
    id: "so-fig11",
    title: "whole packets on several cores",
    source: "[So §4.5] Figure 11",
    needs: Needs {
        rules: &[1_000_000, 4_000_000, 16_000_000],
        quick_rules: &[20_000],
        bytes_per_rule: 200,
        data: &[],
        minutes: 5,
    },
    run: figure_11,
};

pub(super) const FIGURE_12: Experiment = Experiment {
    id: "so-fig12",
    title: "whole packets of threads that dispatch to each other",
    source: "[So §4.5] Figure 12",
    needs: Needs { rules: &[1_000_000], quick_rules: &[20_000], bytes_per_rule: 600, data: &[], minutes: 1 },
    run: figure_12,
};

const MIXES: [Mix; 3] = [Mix::Interest, Mix::Data, Mix::Both];

/// Each technique includes those before it; the last one, ours, replaces the paper's FIB.
const TECHNIQUES: [(&str, &str); 5] = [
    ("longest first, packet by packet", "longest_first/naive"),
    ("hashes of a burst at once", "longest_first/none/64"),
    ("two stages", "two_stage/none/64"),
    ("prefetch", "two_stage/all/64"),
    ("compact", "compact/all/64"),
];

/// The paper's numbers of threads, with the speedups over one thread for Interests, Data and both.
const PAPERS_SPEEDUPS: [(usize, [f64; 3]); 2] = [(4, [3.47, 3.76, 3.54]), (8, [4.86, 4.47, 4.77])];

/// The paper's packets per second of one thread with all techniques: Interests, Data and both.
const PAPER_RATES: [f64; 3] = [1.32e6, 3.39e6, 1.90e6];
/// The same of eight threads.
const PAPER_RATES_OF_EIGHT: [f64; 3] = [6.30e6, 14.67e6, 8.82e6];

fn figure_10(context: &mut Context<'_>) -> anyhow::Result<()> {
    let compare = TECHNIQUES.map(|(_, variant)| variant.parse().expect("a data plane as the command line has it"));
    for rules in context.rules() {
        let mut table = Table::new(&["packets", "technique", "ns a packet", "M packets/s", "change", "speedup"]);
        let labels = MIXES.map(table::word).to_vec();
        let mut chart = Chart::bars(format!("Packets, {} rules", table::count(rules)), labels, "ns a packet");
        let mut by_mix = Vec::new();
        for mix in MIXES {
            let mut options = context.forward(rules);
            (options.mix, options.compare) = (mix, compare.to_vec());
            let records = context.measure_forward(&options)?;
            for (at, (record, (technique, _))) in records.iter().zip(TECHNIQUES).enumerate() {
                table.row([
                    table::word(mix),
                    technique.to_owned(),
                    format!("{:.0}", record.ns_per_packet),
                    table::millions(record.packets_per_s),
                    table::change(records[at.saturating_sub(1)].ns_per_packet, record.ns_per_packet),
                    format!("{:.2}", record.packets_per_s / records[0].packets_per_s),
                ]);
            }
            by_mix.push(records);
        }
        for (at, (technique, _)) in TECHNIQUES.iter().enumerate() {
            chart.bar(*technique, by_mix.iter().map(|records| Some(records[at].ns())));
        }
        chart.paper_of_bars("[So], all techniques", PAPER_RATES.map(|rate| Some(1e9 / rate)));
        print!("{table}");
        println!("{SO}; all of its techniques: 1.32 M Interests/s, 3.39 M Data/s, 1.90 M packets/s on average");
        context.plot(&chart)?;
    }
    Ok(())
}

fn figure_11(context: &mut Context<'_>) -> anyhow::Result<()> {
    let variant: Variant = "compact/all/64".parse().expect("a data plane as the command line has it");
    let cores = std::thread::available_parallelism()?.get();
    let mut table = Table::new(&["rules", "packets", "threads", "M packets/s", "speedup", "[So]"]);
    let mut chart = Chart::lines("Packets by threads", "threads", "packets/s");
    for rules in context.rules() {
        for (kind, mix) in MIXES.into_iter().enumerate() {
            let mut found: Vec<Record> = Vec::new();
            for threads in [1, 2, 4, 8, 16, 32].into_iter().filter(|threads| *threads <= cores) {
                let mut options = context.forward(rules);
                (options.mix, options.compare) = (mix, vec![variant.clone()]);
                options.measuring.threads = threads;
                found.extend(context.measure_forward(&options)?);
            }
            for record in &found {
                let papers = PAPERS_SPEEDUPS.iter().find(|(threads, _)| *threads == record.threads);
                table.row([
                    table::count(rules),
                    table::word(mix),
                    record.threads.to_string(),
                    table::millions(record.packets_per_s),
                    format!("{:.2}", record.packets_per_s / found[0].packets_per_s),
                    papers.map_or("-".to_owned(), |(_, speedups)| format!("{:.2}", speedups[kind])),
                ]);
            }
            let points = found.iter().map(|record| (record.threads as f64, record.rate()));
            chart.line(format!("{}, {} rules", table::word(mix), table::count(rules)), points.collect());
        }
    }
    print!("{table}");
    println!("{SO}; eight threads on two processors: 6.30 M Interests/s, 14.67 M Data/s, 8.82 M packets/s");
    for (mix, rate) in MIXES.into_iter().zip(PAPER_RATES_OF_EIGHT) {
        chart.paper_level(format!("[So], 8 threads, {}", table::word(mix)), rate);
    }
    context.plot(&chart)
}

/// Runs the router's own seats. Each thread is the paper's Dispatcher and App in one. Homes of names and owners of faces
/// are drawn at random.
fn figure_12(context: &mut Context<'_>) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    for rules in context.rules() {
        let heads = [
            "threads",
            "M packets/s",
            "speedup",
            "at home, %",
            "ns to dispatch",
            "ns in a worker",
            "[So], M packets/s",
        ];
        let mut table = Table::new(&heads);
        let mut chart = Chart::lines("Packets by threads", "threads", "packets/s");
        let mut found: Vec<Record> = Vec::new();
        for threads in [1, 2, 4, 8].into_iter().filter(|threads| *threads <= cores) {
            let mut options = context.forward(rules);
            options.measuring.threads = threads;
            found.extend(context.measure_forward(&options)?);
        }
        for record in &found {
            table.row([
                record.threads.to_string(),
                table::millions(record.packets_per_s),
                format!("{:.2}", record.packets_per_s / found[0].packets_per_s),
                format!("{:.0}", record.home_share * 100.0),
                format!("{:.0}", record.dispatch_ns_per_packet),
                format!("{:.0}", record.forward_ns_per_packet - record.dispatch_ns_per_packet),
                if record.threads == 8 { "4.5" } else { "" }.to_owned(),
            ]);
        }
        print!("{table}");
        println!("{SO}; a Dispatcher moves 1.5 M packets/s, 1.3 M if it hashes their names");
        let points = found.iter().map(|record| (record.threads as f64, record.rate()));
        chart.line("dispatched by name", points.collect());
        chart.paper("[So], four Dispatchers", vec![(8.0, 4.5e6)]);
        chart.paper_level("[So], one Dispatcher", 1.3e6);
        context.plot(&chart)?;
    }
    Ok(())
}
