//! `[fleet]`: tables and rules that the agent of a fleet brings, in a small file of its own.
//!
//! The agent writes that file and asks for a reload. It cannot write the configuration itself, and what it may set is
//! `[tables] bulk`, `[tags] bulk`, `[[flat]]`, `[partition]` and `[routing] policy` only.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Config, ConfigError, Finding, FlatNamespace, Partition};

/// `[fleet]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fleet {
    /// The file in which the agent names tables, and has rules of routing. Empty: none.
    pub tables: PathBuf,
}

/// What the agent's file may have. File names in it are relative to its folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Brought {
    tables: BroughtTable,
    tags: BroughtTable,
    flat: Vec<FlatNamespace>,
    partition: Partition,
    routing: BroughtRouting,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BroughtTable {
    bulk: PathBuf,
    bulk_changes: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BroughtRouting {
    policy: Vec<String>,
}

impl Config {
    /// Adds what the agent's file names. If there is no such file, nothing is added.
    ///
    /// # Errors
    /// If the file cannot be read, or is not such a file.
    pub(super) fn add_tables_of_fleet(&mut self) -> Result<Vec<Finding>, ConfigError> {
        if self.fleet.tables.as_os_str().is_empty() {
            return Ok(Vec::new());
        }
        let path = self.folder.join(&self.fleet.tables);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ConfigError::of_file(format!("cannot read the file: {error}"), &path)),
        };
        let brought: Brought = toml::from_str(&text).map_err(|error| ConfigError::from_toml(&error, &text, &path))?;
        // As in the configuration, a relative name is one in its folder.
        let folder = self.fleet.tables.parent().unwrap_or(Path::new("")).to_owned();
        let placed = |file: PathBuf| if file.as_os_str().is_empty() { file } else { folder.join(file) };
        let mut findings = Vec::new();
        let mut twice = |key: &str| {
            let text = format!("{} has this, too: leave it out here, or do not name that file", path.display());
            findings.push(Finding::fatal(key, text));
        };
        if !brought.tables.bulk.as_os_str().is_empty() {
            if !self.tables.bulk.as_os_str().is_empty() {
                twice("tables.bulk");
            }
            self.tables.bulk = placed(brought.tables.bulk);
            self.tables.bulk_changes = brought.tables.bulk_changes;
        }
        if !brought.tags.bulk.as_os_str().is_empty() {
            if !self.tags.bulk.as_os_str().is_empty() {
                twice("tags.bulk");
            }
            self.tags.bulk = placed(brought.tags.bulk);
        }
        if brought.partition != Partition::default() {
            if self.partition != Partition::default() {
                twice("partition");
            }
            self.partition = Partition { table: placed(brought.partition.table), ..brought.partition };
        }
        // The first rule that fits decides: the router's own come first.
        self.routing.policy.extend(brought.routing.policy);
        // A namespace of both is found as two of one file are.
        let flat = brought.flat.into_iter();
        self.flat.extend(flat.map(|flat| FlatNamespace { table: flat.table.map(placed), ..flat }));
        Ok(findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_agent_adds_tables_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, brought) = (folder.path().join("byname.toml"), folder.path().join("fleet/tables.toml"));
        let parse = |text: &str| Config::parse(&format!("{text}[fleet]\ntables = \"fleet/tables.toml\"\n"), &path);
        let config = parse("").expect("no such file");
        assert_eq!((config.bulk_table(), config.flat.len()), (None, 0));

        std::fs::create_dir(folder.path().join("fleet")).expect("a folder");
        let write = |text: &str| std::fs::write(&brought, text).expect("written");
        write(
            "[tables]\nbulk = \"a.table\"\nbulk_changes = 3\n[[flat]]\nprefix = \"/objects\"\ntable = \"/x/o.flat\"\nchanges = 5\n\
             [partition]\ntable = \"p\"\nholds = [\"/r/1\"]\n[tags]\nbulk = \"t.tags\"\n",
        );
        let config = parse("").expect("good");
        assert_eq!(config.bulk_table(), Some(folder.path().join("fleet/a.table")));
        assert_eq!(config.flat[0].table, Some(PathBuf::from("/x/o.flat")));
        assert_eq!((config.tables.bulk_changes, config.flat[0].changes), (3, 5));
        assert_eq!(config.partition_table(), Some(folder.path().join("fleet/p")));
        assert_eq!(config.tag_table(), Some(folder.path().join("fleet/t.tags")));
        for (here, part) in [
            ("[tables]\nbulk = \"b.table\"\n", "byname.toml:2:1: "),
            ("[tags]\nbulk = \"b.tags\"\n", "byname.toml:2:1: "),
            ("[partition]\ntable = \"q\"\n", "byname.toml:1:2: "),
            ("[[flat]]\nprefix = \"/objects\"\n", "two [[flat]]"),
        ] {
            let error = parse(here).expect_err(here).to_string();
            assert!(error.contains(part), "{here}: {error}");
        }
        write("[routing]\npolicy = [\"announce deny prefix /b\"]\n");
        let config = parse("[routing]\npolicy = [\"announce permit prefix /a\"]\n").expect("good");
        assert_eq!(
            config.routing.policy,
            ["announce permit prefix /a", "announce deny prefix /b"],
            "its own come first"
        );
        for (text, part) in [
            ("[routing]\ntrees = 1\n", "tables.toml:2:1: unknown word `trees`"),
            ("[tables]\npit_entries = 5\n", "tables.toml:2:1: unknown word `pit_entries`"),
            ("[tags]\nsteps_max = 5\n", "tables.toml:2:1: unknown word `steps_max`"),
            ("[[route]]\n", "tables.toml:1:3: unknown word `route`"),
            ("[tables\n", "tables.toml:1:"),
        ] {
            write(text);
            let error = parse("").expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
