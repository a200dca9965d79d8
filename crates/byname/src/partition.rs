//! `byname partition`: one router of several machines. Rules are cut into one table for each node, and a partition says which
//! node has the rules of a name.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use byname_lookup::file::{Opening, Place};
use byname_lookup::prefix::compact::{BulkLoader, NodeCounter, Options};
use byname_lookup::prefix::partition::plan::{self, Cuts, Placement, Plan, Survey};
use byname_lookup::prefix::partition::{NODES_MAX, Partition};
use byname_wire::{Name, NameRef, NameView, PrefixHashes};
use clap::{Args, Subcommand};

use crate::exit;
use crate::table::rules::Rules;
use crate::table::{Hash, Labels, REPORTED, ShowArgs, key, out_of_order};
use crate::tools::parse_name;

/// The partition, in the folder of its node's tables.
const PARTITION: &str = "names.partition";
/// There are this many cuts or more, so that shares are even. It does not depend on the number of nodes: names are then cut
/// alike when a node joins.
const CUTS: u64 = 1024;

/// Options of `byname partition`.
#[derive(Debug, Args)]
pub struct PartitionArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Cut rules into a table for each node, with a configuration that uses it
    Build(BuildArgs),
    /// Check a partition, and show its nodes
    Show(ShowArgs),
    /// Say which node has the rules of a name
    Find(FindArgs),
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// The rules: on each line a name and the label of its rule, which is the name whose route the rule follows
    #[arg(value_name = "RULES")]
    rules: PathBuf,
    /// The folder for the files, which is made
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Names of the nodes, such as /example/r1,/example/r2: names of a node's rules follow the route of this name elsewhere
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_name, required = true)]
    nodes: Vec<Name>,
    /// Number of nodes that have each rule: with 2, the next node has all rules of a node, too, and replaces it
    #[arg(long, value_name = "NODES", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    copies: u8,
    /// Rules with this label belong to the node by which their packets leave; others go to a node by their hash
    #[arg(long, value_name = "LABEL=NODE", value_parser = parse_egress)]
    egress: Vec<(Name, Name)>,
    /// Bits of the checksum of each cut: an unknown name crosses in vain with odds of 2^-BITS
    #[arg(long, value_name = "BITS", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    check: u32,
    /// Most rules below one cut; by default a 1,024th of all rules
    #[arg(long, value_name = "RULES", value_parser = clap::value_parser!(u64).range(1..))]
    cut_max: Option<u64>,
    /// The partition that the routers use now, made with the same key (--key-of): a node's table also has the rules that it
    /// had there, until all nodes use the new partition
    #[arg(long, value_name = "PARTITION", requires = "key_of")]
    keep: Option<PathBuf>,
    /// Sort the rules first, which takes memory for all of them; otherwise they must be in NDN's canonical order
    #[arg(long)]
    sort: bool,
    /// Hash function for names; the routers use the files'
    #[arg(long, value_enum, value_name = "FUNCTION", default_value = "siphash13", conflicts_with = "key_of")]
    hash: Hash,
    /// Use the hash key of this table instead of a new one: the same names are then cut alike, so few rules move
    #[arg(long, value_name = "TABLE")]
    key_of: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct FindArgs {
    /// The partition
    #[arg(value_name = "PARTITION")]
    table: PathBuf,
    /// The name
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: Name,
}

fn parse_egress(text: &str) -> Result<(Name, Name), String> {
    let (label, node) = text.split_once('=').ok_or("write a label and a node: /upstream/1=/example/r1")?;
    Ok((parse_name(label)?, parse_name(node)?))
}

/// Carries out a command about partitions.
pub fn run(args: PartitionArgs) -> anyhow::Result<u8> {
    match args.command {
        Command::Build(args) => build(args),
        Command::Show(args) => show(&args.table),
        Command::Find(args) => find(&args.table, &args.name),
    }
}

/// The rules of one node while they are counted and loaded.
struct Part {
    counter: NodeCounter,
    loader: Option<BulkLoader>,
}

/// The number of the node by which packets of each label leave.
fn egresses(args: &BuildArgs) -> anyhow::Result<HashMap<Name, usize>> {
    let mut egresses = HashMap::new();
    for (label, node) in &args.egress {
        let number = args.nodes.iter().position(|other| other == node);
        let number = number.with_context(|| format!("--egress: {node} is not one of --nodes"))?;
        anyhow::ensure!(egresses.insert(label.clone(), number).is_none(), "--egress has the label {label} twice");
    }
    Ok(egresses)
}

fn check(args: &BuildArgs) -> anyhow::Result<()> {
    let nodes = args.nodes.len();
    anyhow::ensure!(nodes <= NODES_MAX, "there are {nodes} nodes, more than {NODES_MAX}");
    anyhow::ensure!(
        usize::from(args.copies) <= nodes,
        "{} copies of each rule need as many nodes, not {nodes}",
        args.copies
    );
    let twice = args.nodes.iter().enumerate().find(|(i, node)| args.nodes[..*i].contains(node));
    anyhow::ensure!(twice.is_none(), "--nodes has {} twice", twice.expect("it is there").1);
    Ok(())
}

fn build(args: BuildArgs) -> anyhow::Result<u8> {
    check(&args)?;
    let egresses = egresses(&args)?;
    let egress = |label: NameRef<'_>| -> Option<usize> {
        if egresses.is_empty() { None } else { egresses.get(&label.to_name()).copied() }
    };
    let key = key(args.hash, args.key_of.as_deref())?;
    let rules = Rules::open(&args.rules, args.sort)?;
    let cut_max = match args.cut_max {
        Some(cut_max) => cut_max,
        None => {
            let mut count = 0u64;
            rules.each(&mut |_, _| {
                count += 1;
                Ok(())
            })?;
            (count / CUTS).max(1)
        }
    };
    let (mut survey, mut labels) = (Survey::new(key, cut_max), Labels::default());
    rules.each(&mut |name, label| {
        labels.id(label)?;
        survey.push(name, egress(label)).map_err(|error| out_of_order(error, args.sort))
    })?;
    let total = survey.rules();
    anyhow::ensure!(total > 0, "{}: there is no rule in it", args.rules.display());
    eprintln!("{total} rules are read");
    let mut holders = Holders::new(survey.finish(args.nodes.clone()), &args)?;
    std::fs::create_dir_all(&args.folder).with_context(|| args.folder.display().to_string())?;
    let (mut cuts, mut everywhere) = (Cuts::default(), 0u64);
    let mut parts: Vec<_> = args.nodes.iter().map(|_| Part { counter: NodeCounter::default(), loader: None }).collect();
    rules.each(&mut |name, label| {
        let placement = holders.plan.place_and_cut(name, egress(label), &mut cuts);
        everywhere += u64::from(placement == Placement::Everywhere);
        holders.of(name, placement).iter().try_for_each(|node| Ok(parts[*node].counter.push(name)?))
    })?;
    let options = Options::default();
    for part in &mut parts {
        part.loader = Some(BulkLoader::new(key, part.counter.nodes(), &options)?);
    }
    let mut loaded = 0;
    rules.each(&mut |name, label| {
        let id = labels.id(label)?;
        let placement = holders.plan.place(name, egress(label));
        for node in holders.of(name, placement) {
            parts[*node].loader.as_mut().expect("each has one").push(name, id)?;
        }
        loaded += 1;
        if loaded % REPORTED == 0 {
            eprintln!("{loaded} rules of {total} are placed");
        }
        Ok(())
    })?;
    let plan = holders.plan;
    let path = args.folder.join(PARTITION);
    let cuts_max = cuts.len();
    let mut progress = |done: usize| {
        if done.is_multiple_of(REPORTED) {
            eprintln!("{done} cuts of {cuts_max} in the partition");
        }
    };
    plan::save(&path, &plan, &cuts, args.check, &mut progress).with_context(|| path.display().to_string())?;
    let bytes = std::fs::metadata(&path).with_context(|| path.display().to_string())?.len();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: {total} rules at {} prefixes, {bytes} bytes", path.display(), cuts.len())?;
    writeln!(out, "  {everywhere} rules are shorter than all cuts, so all nodes have them")?;
    for (number, part) in parts.into_iter().enumerate() {
        let mut table = part.loader.expect("each has one").finish_table(&options)?;
        table.set_labels(labels.texts.clone());
        let file = format!("node-{}", number + 1);
        let path = args.folder.join(&file).with_extension("table");
        table.save(&path).with_context(|| path.display().to_string())?;
        let (count, node) = (table.len(), &plan.nodes()[number]);
        write_configuration(&args, &plan, number)?;
        writeln!(out, "  {node}: {count} rules, {file}.table and {file}.toml")?;
    }
    Ok(exit::OK)
}

/// The nodes that get each rule.
struct Holders {
    plan: Plan,
    copies: usize,
    /// The partition until now, with the new numbers of its nodes.
    before: Option<(Partition, Vec<Option<usize>>)>,
    hashes: Box<PrefixHashes>,
    found: Vec<usize>,
}

impl Holders {
    fn new(plan: Plan, args: &BuildArgs) -> anyhow::Result<Self> {
        let before = args.keep.as_deref().map(|path| open(path, true)).transpose()?;
        let number = |node: &Name| args.nodes.iter().position(|other| other == node);
        let before = before.map(|before| {
            let numbers = before.nodes().iter().map(number).collect();
            (before, numbers)
        });
        if let (Some((before, _)), Some(path)) = (&before, &args.keep) {
            anyhow::ensure!(before.key() == plan.key(), "{}: it has another hash key than --key-of", path.display());
        }
        let (copies, found) = (usize::from(args.copies), Vec::new());
        Ok(Holders { plan, copies, before, hashes: Box::default(), found })
    }

    /// Those of a rule with this place.
    fn of(&mut self, name: NameRef<'_>, placement: Placement) -> &[usize] {
        let count = self.plan.nodes().len();
        self.found.clear();
        match placement {
            Placement::At { node, .. } => self.found.extend((node..node + self.copies).map(|node| node % count)),
            Placement::Everywhere => self.found.extend(0..count),
        }
        if let Some((before, numbers)) = &self.before {
            let view = NameView::new(before.key(), name, &mut self.hashes);
            match before.node(&view) {
                Some((node, _)) => {
                    let nodes = (node..node + self.copies).filter_map(|node| numbers[node % numbers.len()]);
                    self.found.extend(nodes);
                }
                None => self.found.extend(0..count),
            }
            self.found.sort_unstable();
            self.found.dedup();
        }
        &self.found
    }
}

/// Writes settings that make a router this node.
fn write_configuration(args: &BuildArgs, plan: &Plan, number: usize) -> anyhow::Result<()> {
    let (nodes, file) = (plan.nodes(), format!("node-{}", number + 1));
    // The node before this one is replaced by it.
    let held = (0..usize::from(args.copies)).map(|back| &nodes[(number + nodes.len() - back) % nodes.len()]);
    let mut text = format!("# {} of a router of {} nodes.\n", nodes[number], nodes.len());
    writeln!(text, "[tables]\nbulk = \"{file}.table\"\n\n[partition]\ntable = \"{PARTITION}\"")?;
    writeln!(text, "holds = {:?}", held.map(Name::to_string).collect::<Vec<_>>())?;
    let path = args.folder.join(file).with_extension("toml");
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}

fn open(path: &Path, checked: bool) -> anyhow::Result<Partition> {
    Partition::open(path, Opening { place: Place::Mapped, checked }).with_context(|| path.display().to_string())
}

fn show(path: &Path) -> anyhow::Result<u8> {
    // Checked in full, as the router does.
    let partition = open(path, true)?;
    let bytes = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    let mut out = std::io::stdout().lock();
    writeln!(out, "prefixes     {}", partition.cuts())?;
    writeln!(out, "depth        at most {}", partition.depth_max())?;
    writeln!(out, "check bits   {}", partition.check_bits())?;
    writeln!(out, "bytes        {bytes}")?;
    writeln!(out, "nodes        {}", partition.nodes().len())?;
    for node in partition.nodes() {
        writeln!(out, "  {node}")?;
    }
    Ok(exit::OK)
}

fn find(path: &Path, name: &Name) -> anyhow::Result<u8> {
    // Only a few lines are read.
    let partition = open(path, false)?;
    let mut hashes = PrefixHashes::default();
    let view = NameView::new(partition.key(), name.as_ref(), &mut hashes);
    let mut out = std::io::stdout();
    match partition.node(&view) {
        Some((node, depth)) => writeln!(out, "{} {}", view.prefix(depth), partition.nodes()[node])?,
        None => writeln!(out, "{name} is looked up where it arrives: each node has all rules for it")?,
    }
    Ok(exit::OK)
}
