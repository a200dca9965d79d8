//! Shrinks a failing case.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// Maximum number of runs in a search for fewer steps.
const RUNS_MAX: usize = 5000;

/// A step of a case.
pub trait Step: Clone + Debug {
    /// The smallest form of this step that still `fails`.
    fn smaller(self, fails: &mut dyn FnMut(Self) -> bool) -> Self;
}

/// The result of `run`, with a panic as a failure.
pub fn without_panic(run: impl FnOnce() -> Result<u64, String>) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panics: {}", text.unwrap_or("with something that is no text")))
    })
}

/// The fewest and smallest steps found that still fail, and the failure.
pub fn minimal<S: Step>(steps: Vec<S>, run: impl Fn(&[S]) -> Result<u64, String>) -> (Vec<S>, String) {
    let hook = take_hook();
    // Thousands of runs fail now, and their messages would hide the one that matters.
    set_hook(Box::new(|_| {}));
    let mut runs = 0;
    let mut fails = |steps: &[S]| {
        runs += 1;
        runs < RUNS_MAX && without_panic(|| run(steps)).is_err()
    };
    let mut steps = fewer(steps, &mut fails);
    for i in 0..steps.len() {
        let mut with = |step: S| {
            let mut steps = steps.clone();
            steps[i] = step;
            fails(&steps)
        };
        steps[i] = steps[i].clone().smaller(&mut with);
    }
    let failure = without_panic(|| run(&steps)).expect_err("kept only what fails");
    set_hook(hook);
    (steps, failure)
}

/// Leaves out halves, quarters, and finally single items, as long as the rest fails.
pub fn fewer<T: Clone>(mut items: Vec<T>, fails: &mut dyn FnMut(&[T]) -> bool) -> Vec<T> {
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

impl Step for Vec<&'static str> {
    fn smaller(self, fails: &mut dyn FnMut(Self) -> bool) -> Self {
        fewer(self, &mut |part| fails(part.to_vec()))
    }
}

/// An engine that forgets `/b` whenever `/a` is there would fail after two steps.
#[test]
fn a_failure_is_shrunk_to_what_makes_it() {
    let step = |i| match i {
        20 => vec!["/x", "/a", "/y"],
        40 => vec!["/b", "/z"],
        _ => vec!["/w"],
    };
    let run = |steps: &[Vec<_>]| {
        let has = |name| steps.iter().flatten().any(|other| *other == name);
        if has("/a") && has("/b") { Err("lost".to_owned()) } else { Ok(0) }
    };
    let (steps, failure) = minimal((0..50).map(step).collect(), run);
    assert_eq!(format!("{steps:?} {failure}"), r#"[["/a"], ["/b"]] lost"#);
}
