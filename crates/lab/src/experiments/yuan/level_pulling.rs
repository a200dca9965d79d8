//! Level pulling on real URLs: the hash lookups that it saves and, beyond the paper, its speed compared with plain
//! binary search.
//!
//! As in [Yuan §4], all URLs are rules, and each URL is looked up once with three random components appended.
//!
//! Differs: the paper's lists (Alexa, a blacklist, Dmoz) are no longer available. The lists here are one of deep URLs
//! on few hosts and one of domain names.

use byname_lookup::prefix::binary_search::{self, BinarySearch};
use byname_lookup::prefix::level_pulling::{self, LevelPulling};
use serde::Serialize;

use super::YUAN;
use crate::experiments::{Context, Experiment, Needs, counting};
use crate::plot::Chart;
use crate::table::{self, Table};
use crate::workload::{self, Kind, Scheme, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "yuan-table4",
    title: "level pulling on real URLs",
    source: "[Yuan §4] Table 4",
    needs: Needs {
        rules: &[1_000_000],
        quick_rules: &[20_000],
        bytes_per_rule: 1000,
        data: &["urls_ukgov.txt.xz", "domains_tb0hdan.txt.xz"],
        minutes: 6,
    },
    run,
};

/// Scheme, and from [Yuan, Table 4]: the reduction of hash lookups in percent and the prefixes in the C-Trie, for
/// Alexa, BlackL. and Dmoz.
const SCHEMES: [(Scheme, &str, &str); 3] = [
    (Scheme::Tld, "12.08, 9.94, 11.58", "214, 461, 1781"),
    (Scheme::Site, "4.43, 6.52, 8.13", "122, 437, 1742"),
    (Scheme::Host, "0.49, 4.77, 8.60", "19, 271, 1639"),
];
/// Number of random components appended to each URL.
const SUFFIX: usize = 3;

/// Lookups that level pulling saves. They were counted, not timed.
#[derive(Serialize)]
struct Saved {
    workload: String,
    rules: u64,
    binary_search_lookups_per_name: f64,
    level_pulling_lookups_per_name: f64,
    /// Part of binary search's lookups.
    saved_percent: f64,
    starting_points: usize,
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let heads = [
            "list",
            "scheme",
            "rules",
            "lookups",
            "pulled",
            "saved %",
            "[Yuan]: Alexa, BlackL., Dmoz",
            "C-Trie",
            "[Yuan]",
            "M lookups/s",
            "pulled",
            "faster",
        ];
        let mut table = Table::new(&heads);
        let (mut categories, mut saved) = (Vec::new(), Vec::new());
        for file in EXPERIMENT.needs.data {
            for (scheme, paper_saved, paper_size) in SCHEMES {
                let mut options = context.prefix("binary_search", rules);
                options.workload = Kind::Urls { file: context.data(file), scheme };
                options.suffix = SUFFIX;
                let workload = workload::open(&options.workload, rules, 0, options.measuring.seed)?;
                let counted = Counted::new(&*workload)?;
                let records = context.compare(&options, &["binary_search", "level_pulling"])?;
                let saving = 100.0 * (1.0 - counted.level_pulling / counted.binary_search);
                context.record(&Saved {
                    workload: options.workload.label(),
                    rules: workload.rules(),
                    binary_search_lookups_per_name: counted.binary_search,
                    level_pulling_lookups_per_name: counted.level_pulling,
                    saved_percent: saving,
                    starting_points: counted.starting_points,
                })?;
                let list = file.split('.').next().unwrap_or(file);
                let scheme = table::word(scheme);
                categories.push(format!("{list} {scheme}"));
                saved.push(Some(saving));
                table.row([
                    list.to_owned(),
                    scheme,
                    table::count(workload.rules()),
                    format!("{:.3}", counted.binary_search),
                    format!("{:.3}", counted.level_pulling),
                    format!("{saving:.2}"),
                    paper_saved.to_owned(),
                    counted.starting_points.to_string(),
                    paper_size.to_owned(),
                    table::millions(records[0].lookups_per_s),
                    table::millions(records[1].lookups_per_s),
                    table::change(records[0].lookups_per_s, records[1].lookups_per_s),
                ]);
            }
        }
        print!("{table}");
        println!("T = 64. {YUAN}; lookups were counted by simulation, not timed");
        let mut chart = Chart::bars("Hash lookups saved by level pulling", categories, "% of binary search's");
        chart.bar("saved", saved);
        context.plot(&chart)?;
    }
    Ok(())
}

/// Hash lookups per name, and the number of prefixes that are starting points.
struct Counted {
    binary_search: f64,
    level_pulling: f64,
    starting_points: usize,
}

impl Counted {
    fn new(workload: &dyn Workload) -> anyhow::Result<Self> {
        let mut plain = BinarySearch::new(counting::KEY, binary_search::Options::default())?;
        counting::load(&mut plain, workload)?;
        let mut pulled = LevelPulling::new(counting::KEY, level_pulling::Options::default())?;
        counting::load(&mut pulled, workload)?;
        Ok(Counted {
            binary_search: counting::mean(workload, SUFFIX, |name| plain.hash_lookups(name)),
            level_pulling: counting::mean(workload, SUFFIX, |name| pulled.hash_lookups(name)),
            starting_points: pulled.starting_points(),
        })
    }
}
