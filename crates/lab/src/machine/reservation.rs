//! Reserves huge pages for one run and releases them afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, bail, ensure};
use procfs::Current as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::PageSize;

/// Share of the free memory that an estimate may take: names and control halves need memory, too.
const MEMORY_SHARE: f64 = 0.75;

/// Reserved pages. They are released when this is dropped and when the program is interrupted.
pub struct Reservation {
    folder: PathBuf,
    page_bytes: u64,
    /// Number of pages that were reserved before.
    before: u64,
    signals: Handle,
}

impl Reservation {
    /// Reserves pages until at least `bytes` are free. Does nothing for pages that need no reservation. An estimate is
    /// reduced to what the machine has.
    ///
    /// # Errors
    /// If the kernel does not give the pages. The message says what to do about it.
    pub fn take(pages: PageSize, bytes: u64, is_estimate: bool) -> anyhow::Result<Option<Self>> {
        let Some((folder, page_bytes)) = pool(pages) else { return Ok(None) };
        let bound = if is_estimate { (memory_free() as f64 * MEMORY_SHARE) as u64 } else { u64::MAX };
        let (wanted, free) = (bytes.div_ceil(page_bytes), read(&folder, "free_hugepages")?);
        let missing = wanted.saturating_sub(free).min(bound / page_bytes);
        let before = read(&folder, "nr_hugepages")?;
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
        let reservation = Reservation { folder: folder.clone(), page_bytes, before, signals: signals.handle() };
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // Pages in use are released when the process ends.
                let _ = write(&folder, before);
                std::process::exit(128 + signal);
            }
        });
        if missing > 0 {
            write(&reservation.folder, before + missing)?;
            let given = read(&reservation.folder, "nr_hugepages")?.saturating_sub(before);
            if given < missing {
                bail!(
                    "the kernel gave {given} of {missing} pages of {} MiB: its memory is full or fragmented. Try again \
                     after `echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory`, reserve them at \
                     boot (hugepages=), ask for less (--reserve), or use --pages auto",
                    page_bytes >> 20
                );
            }
        }
        Ok(Some(reservation))
    }

    /// Releases unused pages, but keeps enough for a later table of `bytes`.
    pub fn trim(&self, bytes: u64) -> anyhow::Result<()> {
        let all = read(&self.folder, "nr_hugepages")?;
        let used = all.saturating_sub(read(&self.folder, "free_hugepages")?);
        let kept = used.max(bytes.div_ceil(self.page_bytes));
        write(&self.folder, kept.max(self.before))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Err(error) = write(&self.folder, self.before) {
            eprintln!("reserved pages were not given back: {error:#}");
        }
        self.signals.close();
    }
}

/// The kernel's pool of pages of this size, and the size in bytes.
fn pool(pages: PageSize) -> Option<(PathBuf, u64)> {
    let shift = match pages {
        PageSize::Small | PageSize::Large => return None,
        PageSize::Reserved2M => 21,
        PageSize::Reserved1G => 30,
    };
    let folder = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", (1u64 << shift) >> 10);
    Some((PathBuf::from(folder), 1 << shift))
}

fn read(folder: &Path, file: &str) -> anyhow::Result<u64> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path)
        .with_context(|| format!("this machine has no pages of this size ({})", path.display()))?;
    text.trim().parse().with_context(|| format!("{} does not contain a number", path.display()))
}

fn write(folder: &Path, pages: u64) -> anyhow::Result<()> {
    fs::write(folder.join("nr_hugepages"), pages.to_string())
        .with_context(|| "cannot reserve pages: run as root, or use --pages auto".to_owned())
}

/// Memory available without swapping, in bytes; the maximum if unknown.
pub fn memory_free() -> u64 {
    procfs::Meminfo::current().ok().and_then(|memory| memory.mem_available).unwrap_or(u64::MAX)
}

/// Refuses a table of `count` items that cannot fit the free memory, even if each takes only `bytes_min`.
pub fn ensure_fits(count: u64, bytes_min: u64, what: &str) -> anyhow::Result<()> {
    let (needed, free) = (count.saturating_mul(bytes_min), memory_free());
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    ensure!(
        needed <= free,
        "{count} {what} need {:.1} GB of memory at least, but only {:.1} GB are free",
        gigabytes(needed),
        gigabytes(free)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_holds_is_refused() {
        ensure_fits(1_000_000, 11, "rules").expect("a small table");
        let refusal = ensure_fits(u64::MAX, 11, "rules (--rules)").expect_err("too many").to_string();
        assert!(refusal.contains("rules (--rules) need") && refusal.contains("GB are free"), "{refusal}");
    }
}
