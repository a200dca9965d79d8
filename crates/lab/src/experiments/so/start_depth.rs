//! Start depth of two-stage lookups: the FIB lookups that each M saves, and the virtual entries that it costs.
//!
//! One table in use changes through all M, as the engine does when its heuristic chooses another M. Lookups are counted
//! over all names of the trace.
//!
//! Differs from [So §4.3]: the paper's traces are no longer available. Here the names are file paths: fewer names
//! (512,209) of more components (7.3 on average against 6.7). The FIB has as many rules as the paths yield in the
//! paper's distribution of depths. A list of URLs from few hosts would yield only a thousand rules, because it has too
//! few prefixes of two and three components.

use byname_lookup::Control as _;
use byname_lookup::prefix::longest_first::{self, LongestFirst};
use byname_lookup::prefix::two_stage::{self, StartDepth, TwoStage, cumulative_threshold, most_likely};
use byname_wire::NameRef;
use serde::Serialize;

use super::SO;
use crate::experiments::{Context, Experiment, Needs, counting};
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::workload::{self, Kind, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "so-table5",
    title: "start depth of two-stage lookups",
    source: "[So §4.3] Table 5",
    needs: Needs { rules: &[26_000], quick_rules: &[10_000], bytes_per_rule: 4_000, data: &[TRACE], minutes: 2 },
    run,
};

const TRACE: &str = "paths_debian.txt.xz";

/// M, and from [So, Table 5]: the lookups per Interest, and in percent the saved lookups, the expansion of the FIB and
/// the improvement of forwarding.
const PAPER: [(usize, f64, f64, f64, f64); 6] = [
    (3, 3.79, 1.99, 0.00, 3.99),
    (4, 3.18, 17.64, 6.36, 7.34),
    (5, 3.08, 20.21, 6.45, 8.69),
    (6, 3.18, 17.78, 4.50, 8.33),
    (7, 3.36, 12.98, 2.87, 6.82),
    (8, 3.56, 7.94, 0.00, 4.85),
];
const PAPER_BASELINE_LOOKUPS: f64 = 3.87;

/// Lookups that a start depth saves. They were counted, not timed.
#[derive(Serialize)]
struct Saved {
    workload: String,
    rules: u64,
    start_depth: usize,
    baseline_lookups_per_name: f64,
    fib_lookups_per_name: f64,
    /// Part of the baseline's lookups.
    saved_percent: f64,
    virtual_entries: usize,
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let kind = Kind::So { file: context.data(TRACE) };
        let workload = workload::open(&kind, rules, 0, 1)?;
        let counted = Counted::new(&*workload)?;
        let mut options = context.prefix("longest_first", rules);
        options.workload = kind;
        options.tuning.probe_empty_depths = true;
        let baseline = context.measure(&options)?;
        let heads =
            ["M", "FIB lookups", "saved", "[So]", "expansion", "[So]", "M lookups/s", "faster", "[So]: forwarding"];
        let mut table = Table::new(&heads);
        table.row([
            "longest first".to_owned(),
            format!("{:.2} [So] {PAPER_BASELINE_LOOKUPS}", counted.baseline),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            table::millions(baseline.lookups_per_s),
            String::new(),
            String::new(),
        ]);
        let (mut saved, mut saved_in_paper) = (Vec::new(), Vec::new());
        for ((start_depth, lookups, virtual_entries), paper) in counted.by_start_depth.iter().copied().zip(PAPER) {
            options.engine = "two_stage".to_owned();
            options.tuning.start_depth = Some(start_depth);
            let record = context.measure(&options)?;
            let saving = 100.0 * (1.0 - lookups / counted.baseline);
            context.record(&Saved {
                workload: options.workload.label(),
                rules: workload.rules(),
                start_depth,
                baseline_lookups_per_name: counted.baseline,
                fib_lookups_per_name: lookups,
                saved_percent: saving,
                virtual_entries,
            })?;
            saved.push((start_depth as f64, saving));
            saved_in_paper.push((start_depth as f64, paper.2));
            table.row([
                format!("{start_depth}"),
                format!("{lookups:.2} [So] {}", paper.1),
                format!("{saving:.2} %"),
                format!("{:.2} %", paper.2),
                format!("{:.2} %", 100.0 * virtual_entries as f64 / workload.rules() as f64),
                format!("{:.2} %", paper.3),
                table::millions(record.lookups_per_s),
                table::change(baseline.lookups_per_s, record.lookups_per_s),
                format!("{:.2} %", paper.4),
            ]);
        }
        print!("{table}");
        println!("rules of each depth from 1: {:?}", &counted.depth_rules[1..]);
        print_choices(&counted.depth_rules);
        println!("{SO}; 990,031 rules, 7.3 million names");
        let title = format!("FIB lookups saved, {} rules", table::count(workload.rules()));
        let mut chart = Chart::lines(title, "M", "% of longest-first's lookups");
        chart.line(format!("here: {TRACE}"), saved);
        chart.paper("[So, Table 5]", saved_in_paper);
        context.plot(&chart)?;
    }
    Ok(())
}

/// Prints the start depths that the two ways of choosing M yield for this number of rules at each depth.
fn print_choices(depth_rules: &[usize]) {
    let chosen = std::iter::once(most_likely(depth_rules))
        .chain([0.5, 0.75, 0.9].map(|threshold| cumulative_threshold(depth_rules, threshold)))
        .map(|depth| depth.map_or("none".to_owned(), |depth| depth.to_string()));
    println!(
        "M, most likely, then cumulative 50, 75, 90 %: {}; [So]: 4, 4, 5, 6",
        chosen.collect::<Vec<_>>().join(", ")
    );
}

/// Lookup counts over all names.
struct Counted {
    /// Lookups per name, from the longest prefix down.
    baseline: f64,
    /// M, lookups per name, and virtual entries.
    by_start_depth: Vec<(usize, f64, usize)>,
    /// Number of rules of each depth.
    depth_rules: Vec<usize>,
}

impl Counted {
    fn new(workload: &dyn Workload) -> anyhow::Result<Self> {
        // The paper's engines do not skip depths that have no rules.
        let rules_max = workload.rules() as usize;
        let table = longest_first::Options { rules_max, probe_empty_depths: true, ..Default::default() };
        let mut longest_first = LongestFirst::with_options(counting::KEY, table)?;
        counting::load(&mut longest_first, workload)?;
        let baseline = counting::mean(workload, 0, |name| longest_first.probes(name));
        let start_depth = StartDepth::Fixed(PAPER[0].0);
        let mut two_stage = TwoStage::with_options(counting::KEY, two_stage::Options { table, start_depth })?;
        counting::load(&mut two_stage, workload)?;
        let mut by_start_depth = Vec::new();
        for (start_depth, ..) in PAPER {
            two_stage.set_start_depth(start_depth)?;
            two_stage.reclaim();
            let lookups = counting::mean(workload, 0, |name| two_stage.probes(name));
            by_start_depth.push((start_depth, lookups, two_stage.virtual_entries()));
        }
        Ok(Counted { baseline, by_start_depth, depth_rules: depths(workload) })
    }
}

fn depths(workload: &dyn Workload) -> Vec<usize> {
    let (mut rule, mut rules) = (Vec::new(), vec![0; workload.components_max() + 1]);
    for i in 0..workload.rules() {
        workload.write_rule(i, &mut rule);
        rules[NameRef::new_checked_before(&rule).len()] += 1;
    }
    rules
}
