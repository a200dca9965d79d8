//! The small file of settings that names tables for the router, and the reload after which it has them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use byname_client::management::ManagementError;
use byname_client::{AsyncClient, CallError};
use byname_mgmt::{ControlParameters, ControlResponse, Element, ReloadReport};
use tracing::info;

use super::{FileOptions, with_ending};
use crate::follow::router::RouterError;
use crate::intent::{Kept, UsedFile};
use crate::value::TableKind;

/// A reload with large tables may take so long.
const RELOAD: Duration = Duration::from_secs(120);
/// What the settings begin with.
const FIRST_LINE: &str = "# Written by `byname agent`, which writes over all changes.\n";

/// Names these files in the settings, beside rules of routing, and lets the router reload.
pub(in crate::follow) async fn take_over(
    options: Option<FileOptions>,
    client: &AsyncClient,
    (files, policy): (&[UsedFile], &[String]),
) -> Result<(), RouterError> {
    let Some(options) = options else { return Err(RouterError::Files("this agent brings no files".to_owned())) };
    let of = |path: &Path, error: io::Error| RouterError::Files(format!("{}: {error}", path.display()));
    let (path, good) = (&options.settings, options.good());
    let before = read(path).map_err(|error| of(path, error))?;
    if before.is_none() && files.is_empty() && policy.is_empty() {
        return Ok(());
    }
    let text = settings(files, policy);
    let is_new = before.as_ref() != Some(&text);
    if is_new {
        replace(path, &text).map_err(|error| of(path, error))?;
    }
    let refused = match reload(client).await {
        Ok((report, _)) if is_new && report.changes.is_empty() => RouterError::Files(format!(
            "the router does not read {}: name this file in its configuration ([fleet] tables)",
            path.display()
        )),
        Ok((_, warnings)) => {
            for warning in warnings.lines() {
                info!("the router, after a reload: {warning}");
            }
            replace(&good, &text).map_err(|error| of(&good, error))?;
            return Ok(());
        }
        // The router may have taken them over or not.
        Err(error) if error.is_lost() => return Err(error),
        Err(error) => error,
    };
    match read(&good).map_err(|error| of(&good, error))? {
        Some(good) => replace(path, &good),
        None => fs::remove_file(path),
    }
    .map_err(|error| of(path, error))?;
    Err(refused)
}

/// Whether the settings are those that the agent has written for these files and rules.
pub(in crate::follow) fn are_as_written(options: &FileOptions, (files, policy): (&[UsedFile], &[String])) -> bool {
    match read(&options.settings) {
        Ok(Some(text)) => text == settings(files, policy),
        Ok(None) => files.is_empty() && policy.is_empty(),
        // A folder that cannot be read for a moment is no reason for a reload.
        Err(_) => true,
    }
}

/// Settings that name files and have rules. Paths are relative to the folder of the settings.
fn settings(files: &[UsedFile], policy: &[String]) -> String {
    let mut text = FIRST_LINE.to_owned();
    if !policy.is_empty() {
        // Rules are words and URIs in their usual form, too.
        let rules: String = policy.iter().map(|rule| format!("    \"{rule}\",\n")).collect();
        text += &format!("[routing]\npolicy = [\n{rules}]\n");
    }
    // Names of files are labels with digits. Names of prefixes are URIs, which have no quotes and no backslashes.
    for UsedFile { kept: Kept { name, changes }, kind, .. } in files.iter().filter(|file| file.flat.is_none()) {
        text += &match kind {
            TableKind::Tags => format!("[tags]\nbulk = \"{name}\"\n"),
            _ => format!("[tables]\nbulk = \"{name}\"\nbulk_changes = {changes}\n"),
        };
    }
    for (UsedFile { kept: Kept { name, changes }, .. }, (prefix, takes_any)) in
        files.iter().filter_map(|file| Some((file, file.flat.as_ref()?)))
    {
        let unknown = if *takes_any { "any" } else { "checksum" };
        text += &format!(
            "[[flat]]\nprefix = \"{prefix}\"\ntable = \"{name}\"\nchanges = {changes}\nunknown = \"{unknown}\"\n"
        );
    }
    text
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let part = with_ending(path, "part");
    let mut file = File::create(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    drop(file);
    fs::rename(&part, path)
}

/// `config/reload`: what it changed, and warnings.
async fn reload(client: &AsyncClient) -> Result<(ReloadReport, String), RouterError> {
    const COMMAND: &str = "config/reload";
    let response = client.response("config", "reload", &ControlParameters::default(), RELOAD).await?;
    if response.code != 200 {
        let (command, ControlResponse { code, text, .. }) = (COMMAND.to_owned(), response);
        return Err(CallError::from(ManagementError::Refused { command, code, text, body: None }).into());
    }
    let report = match response.body.is_empty() {
        true => ReloadReport::default(),
        false => ReloadReport::decode(&response.body)
            .map_err(|error| CallError::from(ManagementError::Malformed { command: COMMAND.to_owned(), error }))?,
    };
    Ok((report, response.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_all_files() {
        let file = |name: &str, flat: Option<(&str, bool)>| UsedFile {
            kept: Kept { name: name.to_owned(), changes: 7 },
            kind: if name.ends_with(".tags") { TableKind::Tags } else { TableKind::Built },
            flat: flat.map(|(prefix, any)| (prefix.parse().unwrap(), any)),
        };
        assert_eq!(settings(&[], &[]), FIRST_LINE);
        let policy = ["announce deny".to_owned(), "prefer cost 2".to_owned()];
        let expected = "[routing]\npolicy = [\n    \"announce deny\",\n    \"prefer cost 2\",\n]\n";
        assert_eq!(settings(&[], &policy), format!("{FIRST_LINE}{expected}"));
        let files =
            [file("o-1.flat", Some(("/o", false))), file("w-1.table", None), file("p-1.flat", Some(("/p", true)))];
        let text = settings(&files, &[]);
        let expected = "[tables]\nbulk = \"w-1.table\"\nbulk_changes = 7\n\
                        [[flat]]\nprefix = \"/o\"\ntable = \"o-1.flat\"\nchanges = 7\nunknown = \"checksum\"\n\
                        [[flat]]\nprefix = \"/p\"\ntable = \"p-1.flat\"\nchanges = 7\nunknown = \"any\"\n";
        assert_eq!(text, format!("{FIRST_LINE}{expected}"));
        let text = settings(&[file("t-1.tags", None)], &[]);
        assert_eq!(text, format!("{FIRST_LINE}[tags]\nbulk = \"t-1.tags\"\n"));
    }
}
