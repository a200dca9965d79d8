//! Where the real data come from, for those who do not have them.

use std::path::Path;

/// Files that experiments name, and what they are.
const SOURCES: [(&str, &str); 10] = [
    ("urls_ukgov.txt.xz", "URLs of alphagov/transition-config on GitHub, one a line without the scheme"),
    ("paths_debian.txt.xz", "the paths of Debian's Contents index, one a line without the leading slash"),
    ("domains_tb0hdan.txt.xz", "domain names of tb0hdan/domains on GitHub, one a line"),
    ("oui.txt.xz", "MAC prefixes of the IEEE registry in hexadecimal, one a line"),
    ("tags_debtags.txt.xz", "tag sets of Debian's debtags, one a line, separated by spaces"),
    ("tags_cldr.txt.xz", "annotations of Unicode CLDR, `locale<TAB>tag|tag|...` a line"),
    ("routes_ipv4_20080501.dat.gz", "a routing table of RouteViews as pyasn writes it, `prefix<TAB>ASN` a line"),
    ("trace_cache2k_web07.xz", "a request trace of the cache2k benchmarks, 32-bit big-endian ids"),
    ("trace_cache2k_web12.xz", "a request trace of the cache2k benchmarks, 32-bit big-endian ids"),
    ("topology_zoo_gml.tar.gz", "the GML files of the Internet Topology Zoo"),
];

/// What a file has, if an experiment names it.
pub fn source_of(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?;
    SOURCES.iter().find(|(file, _)| name == *file).map(|(_, source)| *source)
}

/// What to say when a file cannot be read.
pub fn cannot_read(path: &Path) -> String {
    match source_of(path) {
        Some(source) => format!("cannot read {}, which has {source}", path.display()),
        None => format!("cannot read {}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_says_where_it_comes_from() {
        let error = crate::workload::text::read(Path::new("/nowhere/urls_ukgov.txt.xz")).expect_err("no such file");
        assert!(format!("{error:#}").contains("alphagov/transition-config"), "{error:#}");
        let error = crate::workload::text::read(Path::new("/nowhere/mine.txt")).expect_err("no such file");
        assert!(format!("{error:#}").starts_with("cannot read /nowhere/mine.txt: "), "{error:#}");
    }
}
