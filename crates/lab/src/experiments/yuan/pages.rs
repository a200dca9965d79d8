//! Time saved by larger pages, and the cost of hashing.
//!
//! Differs from [Yuan §3.3.2]: both strategies of comparing names hash with SipHash-1-3, where the paper uses CityHash
//! for comparing always. The paper measures the time without hashing with an array of precomputed hashes. Here it is
//! the measured time minus that of parsing and hashing alone.

use super::YUAN;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::machine::PageSize;
use crate::plot::Chart;
use crate::prefix::{Record, Strategy};
use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "yuan-fig5",
    title: "page sizes",
    source: "[Yuan §3.3.2] Figure 5",
    needs: Needs { rules: &[16_000_000], quick_rules: &[50_000], bytes_per_rule: 200, data: &[], minutes: 6 },
    run,
};

const PAGES: [(PageSize, &str, &str); 3] = [
    (PageSize::Small, "4 KiB", ""),
    (PageSize::Reserved2M, "2 MiB", "-31 to -47 %"),
    (PageSize::Reserved1G, "1 GiB", "-4 to -8 %"),
];

/// Strategy, its name in the paper, and the time that precomputed hashes saved there.
const STRATEGIES: [(Strategy, &str, &str); 2] =
    [(Strategy::Always, "CityA: always", "-21 %"), (Strategy::AtEnd, "SipE: at the end", "-45 %")];

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    for rules in context.rules() {
        let heads =
            ["names compared", "pages", "ns a lookup", "change", "[Yuan]", "without hashing", "change", "[Yuan]"];
        let mut table = Table::new(&heads);
        let pages = PAGES.map(|(_, label, _)| label.to_owned()).to_vec();
        let mut chart =
            Chart::bars(format!("Lookups in {} rules by page size", table::count(rules)), pages, "ns a lookup");
        let mut limits = Vec::new();
        for (strategy, label, paper_unhashed) in STRATEGIES {
            let records = over_pages(context, rules, strategy)?;
            let mut before: Option<f64> = None;
            for ((_, page, paper), record) in PAGES.into_iter().zip(&records) {
                let Some(Record { ns_per_lookup: ns, hash_ns_per_lookup: hash_ns, .. }) = *record else { continue };
                table.row([
                    label.to_owned(),
                    page.to_owned(),
                    format!("{ns:.0}"),
                    before.map_or(String::new(), |before| table::change(before, ns)),
                    paper.to_owned(),
                    format!("{:.0}", ns - hash_ns),
                    table::change(ns, ns - hash_ns),
                    if page == "1 GiB" { paper_unhashed.to_owned() } else { String::new() },
                ]);
                before = Some(ns);
            }
            let times =
                (0..).zip(&records).filter_map(|(at, record)| Some((f64::from(at), record.as_ref()?.machine_ns()?)));
            limits.extend(times);
            chart.bar(label, records.iter().map(|record| Some(record.as_ref()?.ns())));
            let unhashed = |record: &Record| record.ns_per_lookup - record.hash_ns_per_lookup;
            chart.bar(format!("{label}, without hashing"), records.iter().map(|record| record.as_ref().map(unhashed)));
        }
        print!("{table}");
        println!("{YUAN}; its changes are of 512 million and 1 billion rules");
        chart.machine_time(limits);
        context.plot(&chart)?;
    }
    Ok(())
}

/// Measures each page size. A record is `None` if the machine has no such pages.
fn over_pages(context: &mut Context<'_>, rules: u64, strategy: Strategy) -> anyhow::Result<Vec<Option<Record>>> {
    let mut records = Vec::new();
    for (pages, label, _) in PAGES {
        let mut options = context.prefix("binary_search", rules);
        options.pages = pages;
        options.tuning.strategy = Some(strategy);
        let record = match context.measure(&options) {
            // Every machine has small pages, so this error has another cause.
            Err(error) if pages == PageSize::Small => return Err(error),
            Err(error) => {
                println!("{label} pages are left out: {error:#}");
                None
            }
            Ok(record) => Some(record),
        };
        records.push(record);
    }
    Ok(records)
}
