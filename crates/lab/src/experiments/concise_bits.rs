//! What a name takes for actions of every width, and at every size.
//!
//! Each table is measured in a process of its own, whose allocator gives back at once what is freed:
//! pages that it keeps would count as the query half's.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::papers::CONCISE;
use super::{Context, Experiment, Needs, Table, table};
use crate::plot::Chart;

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
/// The width at which sizes are compared, and one that must cost in proportion.
const WIDTHS: [u32; 2] = [8, 5];
/// What makes glibc map each larger piece of memory by itself.
const GIVES_BACK: (&str, &str) =
    ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=65536:glibc.malloc.trim_threshold=65536");

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let sizes = context.rules();
    let mut rows = Table::new(&["engine", "names", "bits an action", "bits a name", "counted", "for a bit", "control"]);
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
        // Beyond a million, and small enough for 32 of them.
        let Some(&names) = sizes.get(1).or(sizes.first()) else { continue };
        for width in 1..=32 {
            points.push((f64::from(width), at(context, names, width)?));
        }
        chart.line(engine, points);
    }
    print!("{rows}");
    println!("{CONCISE}: 2.67 to 4 bits for each bit of the action, less than 5.72 l n with all rounding");
    context.plot(&chart)
}

/// The record of one table; also written to the experiment's file.
fn measure(context: &mut Context<'_>, engine: &str, names: u64, width: u32) -> anyhow::Result<Value> {
    let mut process = Command::new(std::env::current_exe()?);
    process.args(["flat", "--hash", "aes", "--seconds", "0.2", "--draws", "100k", "--json"]);
    process.args(["--engine", engine, "--names", &names.to_string(), "--action-bits", &width.to_string()]);
    let output = process.env(GIVES_BACK.0, GIVES_BACK.1).output().context("cannot start another process")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{engine}, {names} names, {width} bits: {errors}");
    let mut record: Value = serde_json::from_slice(&output.stdout)?;
    // The recorder writes them anew.
    let fields = record.as_object_mut().context("a record is an object")?;
    ["experiment", "cpu", "cores", "kernel", "commit"].iter().for_each(|field| drop(fields.remove(*field)));
    context.record(&record)?;
    Ok(record)
}
