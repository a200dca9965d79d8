//! Memory of a name for every action width and for several table sizes.
//!
//! Each table is measured in a process of its own. Its allocator returns freed memory to the kernel at once: pages that
//! it kept would count as memory of the query half.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::CONCISE;
use crate::experiments::{Context, Experiment, Needs};
use crate::plot::Chart;
use crate::record;

use crate::table::{self, Table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    id: "concise-bits",
    title: "memory of flat names by width of actions, and by number of names",
    source: "[Concise §5.1]",
    needs: Needs {
        rules: &[1_000_000, 2_000_000, 16_000_000, 64_000_000],
        quick_rules: &[50_000, 100_000],
        bytes_per_rule: 80,
        data: &[],
        minutes: 20,
    },
    run,
};

const ENGINES: [&str; 2] = ["line", "othello"];
/// Action widths: one at which sizes are compared, and one whose cost must be in proportion.
const WIDTHS: [u32; 2] = [8, 5];
/// The paper's bits of memory for each bit of an action, at least and at most.
const PAPER_FACTORS: [f64; 2] = [2.67, 4.0];
/// Makes glibc map each larger allocation separately, so that freeing it returns its pages.
const GIVES_BACK: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=65536:glibc.malloc.trim_threshold=65536");

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let sizes = context.rules();
    let mut rows = Table::new(&[
        "engine",
        "names",
        "bits an action",
        "bits a name",
        "as counted",
        "bits per action bit",
        "control",
    ]);
    let mut chart = Chart::lines("Memory of a name by width of actions", "bits an action", "bits a name");
    for engine in ENGINES {
        let mut points = Vec::new();
        let mut at = |context: &mut Context<'_>, names: u64, width: u32| -> anyhow::Result<f64> {
            let record = measure(context, engine, names, width)?;
            let number = |field: &str| record[field].as_f64().with_context(|| format!("no {field} in the record"));
            let bits = number("bits_per_name")?;
            rows.row([
                engine.to_owned(),
                table::count(names),
                width.to_string(),
                format!("{bits:.2}"),
                format!("{:.2}", number("bits_per_name_counted")?),
                format!("{:.3}", bits / f64::from(width)),
                format!("{:.1}", number("control_bytes_per_name")?),
            ]);
            Ok(bits)
        };
        let mut ends = Vec::new();
        for &names in &sizes {
            let [wide, narrow] = WIDTHS.map(|width| at(context, names, width));
            let (wide, narrow) = (wide?, narrow?);
            println!("{engine}, {} names: 5 bits cost {:.3} of 8 (5/8: 0.625)", table::count(names), narrow / wide);
            ends.push(wide);
        }
        if let (Some(first), Some(last)) = (ends.first(), ends.last()) {
            println!("{engine}: {:+.1} % from the smallest to the largest", 100.0 * (last / first - 1.0));
        }
        // Above a million names, yet small enough for 32 tables.
        let Some(&names) = sizes.get(1).or(sizes.first()) else { continue };
        for width in 1..=32 {
            points.push((f64::from(width), at(context, names, width)?));
        }
        chart.line(engine, points);
    }
    let widths = || (1..=32).map(f64::from);
    for factor in PAPER_FACTORS {
        chart.paper(format!("[Concise]: {factor} bits for each"), widths().map(|l| (l, factor * l)).collect());
    }
    print!("{rows}");
    println!("{CONCISE}: 2.67 to 4 bits for each bit of the action, less than 5.72 l n with all rounding");
    context.plot(&chart)
}

/// Measures one table in a new process. Returns its record and writes it to the experiment's file.
fn measure(context: &mut Context<'_>, engine: &str, names: u64, width: u32) -> anyhow::Result<Value> {
    let mut process = Command::new(std::env::current_exe()?);
    process.args(["flat", "--hash", "aes", "--seconds", "0.2", "--draws", "100k", "--json"]);
    process.args(["--engine", engine, "--names", &names.to_string(), "--action-bits", &width.to_string()]);
    let output = process.env(GIVES_BACK.0, GIVES_BACK.1).output().context("cannot start another process")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{engine}, {names} names, {width} bits: {errors}");
    let mut record: Value = serde_json::from_slice(&output.stdout)?;
    // The recorder adds these fields again.
    let fields = record.as_object_mut().context("a record is an object")?;
    let parameters = fields.remove("parameters");
    record::FIELDS.iter().for_each(|field| drop(fields.remove(*field)));
    context.record_of(&parameters, &record)?;
    Ok(record)
}
