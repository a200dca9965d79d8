//! The two texts that monitoring systems read.

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0, for scrapers that ask for it.
    OpenMetrics,
    /// Prometheus's own, version 0.0.4, which everything reads.
    Prometheus,
}

impl Format {
    /// The format for a request with this Accept header.
    pub fn accepted_by(accept: Option<&str>) -> Format {
        let wants = accept.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        if wants { Format::OpenMetrics } else { Format::Prometheus }
    }

    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// This format of an OpenMetrics text. Prometheus's own gives counters their whole names also where it describes
    /// them, and has neither units nor an end mark.
    pub fn of(self, open_metrics: &str) -> String {
        if self == Format::OpenMetrics {
            return open_metrics.to_owned();
        }
        let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 16);
        let mut lines = open_metrics.lines().peekable();
        while let Some(line) = lines.next() {
            let described = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '));
            if let Some((name, help)) = described {
                let is_counter = lines.peek().is_some_and(|next| *next == format!("# TYPE {name} counter"));
                let suffix = if is_counter { "_total" } else { "" };
                text.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            } else if let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_suffix(" counter")) {
                text.push_str(&format!("# TYPE {name}_total counter\n"));
            } else if !line.starts_with("# UNIT ") && line != "# EOF" {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_whole_names_in_the_older_format() {
        let open = "# HELP a_b Things.\n# TYPE a_b counter\na_b_total{x=\"y\"} 1\n# HELP c Size.\n# TYPE c gauge\n\
                    # UNIT c bytes\nc 2\n# EOF\n";
        let plain = "# HELP a_b_total Things.\n# TYPE a_b_total counter\na_b_total{x=\"y\"} 1\n# HELP c Size.\n\
                     # TYPE c gauge\nc 2\n";
        assert_eq!(Format::Prometheus.of(open), plain);
        assert_eq!(Format::OpenMetrics.of(open), open);
    }

    #[test]
    fn scrapers_get_what_they_ask_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        assert_eq!(Format::accepted_by(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::accepted_by(Some("*/*")), Format::Prometheus);
        assert_eq!(Format::accepted_by(None), Format::Prometheus);
    }
}
