//! `byname completions` and `byname man`: what packages install beside the program, from the same source as `--help`.

use std::path::PathBuf;

use anyhow::Context;
use clap_complete::Shell;

use crate::{exit, line};

/// Options of `byname completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Options of `byname man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Folder for the pages: byname.1, and one for each command
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs `byname completions`.
pub fn completions(args: CompletionsArgs) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut line::command(), "byname", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(exit::OK)
}

/// Runs `byname man`.
pub fn man(args: ManArgs) -> anyhow::Result<u8> {
    let folder = args.folder;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(line::command(), &folder)
        .with_context(|| format!("cannot write pages into {}", folder.display()))?;
    Ok(exit::OK)
}
