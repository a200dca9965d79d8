//! Text in nfdc's format: `key=value` items, one on each line or aligned in columns.

use std::time::Duration;

/// Items of one object, in display order.
pub type Items = Vec<(&'static str, String)>;

/// One object on several lines, with keys aligned to the right as in nfdc.
pub fn lines(items: &Items) -> String {
    let width = items.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    items.iter().map(|(key, value)| format!("{key:>width$}={value}\n")).collect()
}

/// One object on one line.
pub fn line(items: &Items) -> String {
    items.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// One line for each object, with equal keys below each other.
pub fn columns(rows: &[Items]) -> String {
    // Keys in the order of their first appearance. An object may lack some keys.
    let mut keys: Vec<(&str, usize)> = Vec::new();
    for (position, (key, value)) in rows.iter().flat_map(|row| row.iter().enumerate()) {
        let len = key.len() + 1 + value.chars().count();
        match keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, width)) => *width = (*width).max(len),
            None => keys.insert(position.min(keys.len()), (key, len)),
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (key, width) in &keys {
            let cell = row.iter().find(|(known, _)| known == key).map(|(_, value)| format!("{key}={value}"));
            line += &format!("{:<width$} ", cell.unwrap_or_default());
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// `text` with each line indented by two spaces.
pub fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// `3 days 04:05:06`, or with milliseconds below a minute.
pub fn duration(duration: Duration) -> String {
    let s = duration.as_secs();
    let (days, h, m) = (s / 86_400, s / 3600 % 24, s / 60 % 60);
    match days {
        0 if s < 60 => format!("{}.{:03}s", s, duration.subsec_millis()),
        0 => format!("{h:02}:{m:02}:{:02}", s % 60),
        1 => format!("1 day {h:02}:{m:02}:{:02}", s % 60),
        _ => format!("{days} days {h:02}:{m:02}:{:02}", s % 60),
    }
}

/// UTC time of `ms` since 1970, as `2026-11-20T14:05:00.123Z`.
pub fn timestamp(ms: u64) -> String {
    let (days, in_day) = (ms / 86_400_000, ms % 86_400_000);
    // Days to civil date, in eras of 400 years that begin on 1 March (Howard Hinnant's algorithm).
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (h, m, s) = (in_day / 3_600_000, in_day / 60_000 % 60, in_day / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z", ms % 1000)
}

/// `on` or `off`, as in nfdc.
pub fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(items: &[(&'static str, &str)]) -> Items {
        items.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
    }

    #[test]
    fn shapes() {
        let items = row(&[("id", "1"), ("remote", "x")]);
        assert_eq!(line(&items), "id=1 remote=x");
        assert_eq!(lines(&items), "    id=1\nremote=x\n");
        assert_eq!(indented("a\nb\n"), "  a\n  b\n");
    }

    #[test]
    fn columns_align_and_leave_gaps() {
        let rows = [
            row(&[("id", "1"), ("remote", "long-one"), ("flags", "{}")]),
            row(&[("id", "1000"), ("remote", "x"), ("mtu", "9"), ("flags", "{}")]),
        ];
        assert_eq!(columns(&rows), "id=1    remote=long-one       flags={}\nid=1000 remote=x        mtu=9 flags={}\n");
        assert_eq!(columns(&[]), "");
    }

    #[test]
    fn times() {
        assert_eq!(duration(Duration::from_millis(59_007)), "59.007s");
        assert_eq!(duration(Duration::from_secs(3 * 86_400 + 3661)), "3 days 01:01:01");
        assert_eq!(duration(Duration::from_secs(86_400)), "1 day 00:00:00");
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_795_183_500_123), "2026-11-20T14:05:00.123Z");
    }
}
