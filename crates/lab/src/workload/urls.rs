//! Rules from a list of URLs, by the schemes of [Yuan, Table 3].

use std::path::Path;

use anyhow::ensure;
use byname_wire::{Component, Name, NameRef};

use super::components::push_random;
use super::list::NameList;
use super::random::Random;
use super::{DEPTH_MAX, Scheme, Workload, count_depths, text};

/// Draws for one name that no rule covers, before the rules are blamed.
const MISS_TRIES: usize = 1000;

/// The names of a list's URLs, each once.
pub struct Urls {
    rules: NameList,
}

impl Urls {
    /// Reads the list, of which at most `rules_max` URLs are taken, at random.
    pub fn read(file: &Path, scheme: Scheme, rules_max: u64, seed: u64) -> anyhow::Result<Self> {
        let octets = text::read(file)?;
        let mut names = NameList::default();
        for name in text::lines(&octets).filter_map(|line| url_name(line, scheme)) {
            names.push(name.as_ref());
        }
        let names = names.sorted();
        ensure!(names.len() > 0, "{} has no URLs", file.display());
        let rules_max = usize::try_from(rules_max).unwrap_or(usize::MAX);
        let rules = if names.len() > rules_max { names.sample(rules_max, &mut Random::new(seed)) } else { names };
        Ok(Urls { rules })
    }
}

impl Workload for Urls {
    fn rules(&self) -> u64 {
        self.rules.len() as u64
    }

    fn rules_by_depth(&self) -> Vec<u64> {
        count_depths(self.rules.iter().map(|name| name.len()))
    }

    fn bulk_nodes(&self) -> Option<u64> {
        None
    }

    fn write_rule(&self, i: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.rules.name(i as usize).value());
    }

    fn targets(&self) -> u64 {
        self.rules()
    }

    fn write_target(&self, t: u64, out: &mut Vec<u8>) {
        self.write_rule(t, out);
    }

    fn write_miss(&self, random: &mut Random, out: &mut Vec<u8>) {
        write_miss_like(&self.rules, random, out);
    }

    fn covering(&self, name: NameRef<'_>) -> Option<u64> {
        self.rules.covering(name).map(|i| i as u64)
    }
}

/// The name of a URL or path; a query is one component [So §4.1]. `None` where that is `/` or deeper
/// than tables take.
pub fn url_name(url: &str, scheme: Scheme) -> Option<Name> {
    let url = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (place, query) = url.split_once('?').map_or((url, None), |(place, query)| (place, Some(query)));
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let labels = || host.rsplit('.').filter(|label| !label.is_empty());
    // A registry of public suffixes would know better where a site's own labels begin.
    let site = host.rmatch_indices('.').nth(1).map_or(0, |(dot, _)| dot + 1);
    let (first, labels): (Option<&str>, Vec<&str>) = match scheme {
        Scheme::Tld => (None, labels().collect()),
        Scheme::Site => (Some(&host[site..]), labels().skip(2).collect()),
        Scheme::Host => (Some(host), Vec::new()),
    };
    let first = first.filter(|first| !first.is_empty());
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    let components = first.into_iter().chain(labels).chain(segments).chain(query);
    let name = Name::from_components(components.map(|component| Component::generic(component.as_bytes())));
    (1..=DEPTH_MAX).contains(&name.as_ref().len()).then_some(name)
}

/// A name of random components, as many as a rule has, that no rule covers.
///
/// # Panics
/// If none is found, which takes a rule for `/`.
pub fn write_miss_like(rules: &NameList, random: &mut Random, out: &mut Vec<u8>) {
    for _ in 0..MISS_TRIES {
        let like = rules.name(random.below(rules.len() as u64) as usize);
        out.clear();
        (0..like.len()).for_each(|_| push_random(random, out));
        if rules.covering(NameRef::new_checked_before(out)).is_none() {
            return;
        }
    }
    unreachable!("URLs have a component, and random ones are not among the first of {} rules", rules.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemes_are_those_of_the_papers() {
        for (scheme, expected) in [
            (Scheme::Tld, "/net/named-data/www/project"),
            (Scheme::Site, "/named-data.net/www/project"),
            (Scheme::Host, "/www.named-data.net/project"),
        ] {
            let name = url_name("http://www.named-data.net/project/", scheme).expect("a URL");
            assert_eq!(name.to_string(), expected);
        }
        let name = url_name("cisco.com/ndn?a=1/b", Scheme::Tld).expect("a URL");
        assert_eq!(name.as_ref().component(-1), Some(Component::generic(b"a=1/b")));
        assert_eq!(url_name("a.b.c.org/", Scheme::Site).expect("a URL").to_string(), "/c.org/b/a");
        assert_eq!(url_name("usr/share/doc", Scheme::Tld).expect("a path").to_string(), "/usr/share/doc");
        assert_eq!(url_name("http:///", Scheme::Host), None);
        assert_eq!(url_name(&"a/".repeat(40), Scheme::Host), None);
    }
}
