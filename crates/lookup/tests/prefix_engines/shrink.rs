//! From a failing case to a small one.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use byname_lookup::Change;
use byname_wire::Name;

use crate::property::Step;

/// Most runs of one search for fewer steps.
const RUNS_MAX: usize = 5000;

/// What `run` yields, its panic among the failures.
pub fn without_panic(run: impl FnOnce() -> Result<u64, String>) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panics: {}", text.unwrap_or("with something that is no text")))
    })
}

/// As few steps, and as few changes and names in them, as can be found that still fail; and how.
pub fn minimal(steps: Vec<Step>, run: impl Fn(&[Step]) -> Result<u64, String>) -> (Vec<Step>, String) {
    let hook = take_hook();
    // Thousands of runs fail now: their messages would bury the one that counts.
    set_hook(Box::new(|_| {}));
    let mut runs = 0;
    let mut fails = |steps: &[Step]| {
        runs += 1;
        runs < RUNS_MAX && without_panic(|| run(steps)).is_err()
    };
    let mut steps = fewer(steps, &mut fails);
    for i in 0..steps.len() {
        let mut with = |step: Step| {
            let mut steps = steps.clone();
            steps[i] = step;
            fails(&steps)
        };
        let smaller = match steps[i].clone() {
            Step::Change(changes) => {
                Step::Change(fewer(changes, &mut |part: &[Change<Name>]| with(Step::Change(part.to_vec()))))
            }
            Step::Refuse(changes) => {
                Step::Refuse(fewer(changes, &mut |part: &[Change<Name>]| with(Step::Refuse(part.to_vec()))))
            }
            Step::Look(names) => Step::Look(fewer(names, &mut |part: &[Name]| with(Step::Look(part.to_vec())))),
            Step::Reclaim => Step::Reclaim,
        };
        steps[i] = smaller;
    }
    let failure = without_panic(|| run(&steps)).expect_err("kept only what fails");
    set_hook(hook);
    (steps, failure)
}

/// Leaves out halves, quarters... single items, as long as the rest fails.
fn fewer<T: Clone>(mut items: Vec<T>, fails: &mut dyn FnMut(&[T]) -> bool) -> Vec<T> {
    let mut size = items.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < items.len() {
            let end = (at + size).min(items.len());
            let rest = [&items[..at], &items[end..]].concat();
            if fails(&rest) { items = rest } else { at = end }
        }
        size /= 2;
    }
    items
}

/// An engine that forgets `/b` whenever `/a` is there would fail by two changes and a lookup.
#[test]
fn a_failure_is_shrunk_to_what_makes_it() {
    let set = |uri: &str| Change::Set(crate::names::name(uri), byname_lookup::EntryId(1));
    let steps: Vec<_> = (0..50)
        .map(|i| match i {
            20 => Step::Change(vec![set("/x"), set("/a"), set("/y")]),
            40 => Step::Change(vec![set("/b"), set("/z")]),
            _ => Step::Reclaim,
        })
        .collect();
    let run = |steps: &[Step]| {
        let has =
            |change: &Change<Name>| steps.iter().any(|step| matches!(step, Step::Change(c) if c.contains(change)));
        if has(&set("/a")) && has(&set("/b")) { Err("lost".to_owned()) } else { Ok(0) }
    };
    let (steps, failure) = minimal(steps, run);
    assert_eq!(format!("{steps:?} {failure}"), "[change /a=1, change /b=1] lost");
}
