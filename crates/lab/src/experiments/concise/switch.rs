//! Whole frames through a flat switch.
//!
//! Differs: in tables that keep no names, entries have 24 bits of checksum beside the 8 bits of the action. The paper's
//! Figure 10 shows how the machines of Figure 11 are wired; this experiment uses two virtual cables.

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::harness::Measured as _;
use crate::plot::Chart;
use crate::progress::Progress;
use crate::switch::{self, From, Place};
use crate::table;

const NAMES: &[u64] = &[250_000, 1_000_000, 4_000_000, 16_000_000];
const QUICK_NAMES: &[u64] = &[2_000, 5_000];

pub(super) const FIGURE_9: Experiment = Experiment {
    id: "concise-fig9",
    title: "frames through a flat switch in memory, by table",
    source: "[Concise §6.4.1] Figure 9",
    needs: Needs { rules: NAMES, quick_rules: QUICK_NAMES, bytes_per_rule: 150, data: &[], minutes: 4 },
    run: figure_9,
};

pub(super) const FIGURE_11: Experiment = Experiment {
    id: "concise-fig11",
    title: "frames through a flat switch on virtual cables, and how long they take",
    source: "[Concise §6.4.2] Figures 10, 11",
    needs: Needs { rules: NAMES, quick_rules: QUICK_NAMES, bytes_per_rule: 150, data: &[], minutes: 3 },
    run: figure_11,
};

const ENGINES: [&str; 4] = ["line", "othello", "cuckoo", "binary_search"];
/// The paper's other table. With more names it takes minutes to build.
const ORTHOGONAL: (&str, u64) = ("orthogonal", 1_000_000);

fn figure_9(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mut records = Vec::new();
    for names in context.rules() {
        let mut options = context.switch(Place::Memory, vec![names]);
        let with_orthogonal = (names <= ORTHOGONAL.1).then_some(ORTHOGONAL.0);
        options.compare = ENGINES.into_iter().chain(with_orthogonal).map(str::to_owned).collect();
        let found = switch::in_memory(&options, Progress::SHOWN)?;
        context.record_all(&options, &found)?;
        records.extend(found);
    }
    print!("{}", switch::table_of_memory(&records));
    println!("{CONCISE}, with Click: below 2 M names twice the rate of Cuckoo and four times that of orthogonal Bloom");
    println!("filters, and the highest at every size, in 10 to 20 % of the memory of the others");
    let mut bytes: Vec<_> = records.iter().map(|record| record.passage.bytes).collect();
    bytes.sort_unstable();
    bytes.dedup();
    for bytes in bytes {
        let mut chart = Chart::lines(format!("Frames of {bytes} bytes in memory"), "names", "frames/s");
        for engine in ["foretold"].into_iter().chain(ENGINES).chain([ORTHOGONAL.0]) {
            let of_engine =
                records.iter().filter(|record| record.passage.bytes == bytes && record.passage.engine == engine);
            chart.line(engine, of_engine.map(|record| (record.passage.names as f64, record.rate())).collect());
        }
        context.plot(&chart)?;
    }
    Ok(())
}

fn figure_11(context: &mut Context<'_>) -> anyhow::Result<()> {
    if let Err(error) = switch::wire_allowed() {
        println!("skipped: {error:#}");
        return Ok(());
    }
    let mut options = context.switch(Place::Wire, context.rules());
    // As in `byname switch`: the sources of hosts are looked up, too.
    (options.from, options.compare) = (From::Hosts, vec!["othello".to_owned()]);
    let records = switch::on_wire(&options, Progress::SHOWN)?;
    context.record_all(&options, &records)?;
    print!("{}", switch::table_of_wire(&records));
    println!("{CONCISE}, with DPDK and virtio: more than a million frames/s, the same at every number of names and");
    println!("for 64 and 1,500 bytes (12 Gbit/s at least)");
    let labels = records.iter().filter(|record| record.passage.bytes == records[0].passage.bytes);
    let labels = labels.map(|record| match record.passage.names {
        0 => record.passage.engine.clone(),
        names => table::count(names),
    });
    let mut chart = Chart::bars("Frames on virtual cables, by names", labels.collect(), "frames/s");
    for of_size in records.chunk_by(|one, next| one.passage.bytes == next.passage.bytes) {
        let rates = of_size.iter().map(|record| Some(record.rate()));
        chart.bar(format!("{} bytes", of_size[0].passage.bytes), rates);
    }
    chart.paper_level("[Concise], DPDK and virtio: more than", 1e6);
    context.plot(&chart)
}
