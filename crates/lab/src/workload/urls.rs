//! Rules from a list of URLs, by the schemes of [Yuan, Table 3].

use std::path::Path;

use anyhow::ensure;
use byname_wire::url::{UrlScheme, name_of_url};
use byname_wire::{Name, NameRef};

use super::components::push_random;
use super::list::NameList;
use super::random::Random;
use super::{DEPTH_MAX, Scheme, Workload, count_depths, text};

/// Maximum number of draws for one name that no rule covers.
const MISS_TRIES: usize = 1000;

/// The names of a list's URLs, without duplicates.
pub struct Urls {
    rules: NameList,
}

impl Urls {
    /// Reads the list. Takes at most `rules_max` URLs, at random.
    pub fn read(file: &Path, scheme: Scheme, rules_max: u64, seed: u64) -> anyhow::Result<Self> {
        let bytes = text::read(file)?;
        let mut names = NameList::default();
        for name in text::lines(&bytes).filter_map(|line| url_name(line, scheme)) {
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

/// The name of a URL or path; `None` for a malformed line, or if the name is deeper than tables allow.
pub fn url_name(url: &str, scheme: Scheme) -> Option<Name> {
    let scheme = match scheme {
        Scheme::Tld => UrlScheme::Tld,
        Scheme::Site => UrlScheme::Site,
        Scheme::Host => UrlScheme::Host,
    };
    let name = name_of_url(scheme, url).ok()?;
    (1..=DEPTH_MAX).contains(&name.as_ref().len()).then_some(name)
}

/// Writes a name of random components that no rule covers, as deep as a random rule.
///
/// # Panics
/// If no such name is found, which happens only if `/` is a rule.
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
        assert_eq!(url_name("usr/share/doc", Scheme::Tld).expect("a path").to_string(), "/usr/share/doc");
        assert_eq!(url_name("http:///", Scheme::Host), None);
        assert_eq!(url_name(&"a/".repeat(40), Scheme::Host), None);
    }
}
