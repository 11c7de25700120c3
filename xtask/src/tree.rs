//! `cargo xtask ci tree`: the dependency direction, checked three ways: what the manifests declare, what cargo
//! resolves for a crate, and what the lock file holds.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, cargo};
use crate::report::{Outcome, Report};
use crate::rules::{self, CORE, DRIVERS, RUNNER, SUITE};
use crate::workspace::{self, Workspace};

/// Never built: a second TLS provider beside aws-lc-rs makes rustls panic at the first connection.
const BANNED: &str = "ring";
/// At most one version of each: two bundled SQLites in one program corrupt files.
const SINGLE: &[&str] = &["rusqlite", "libsqlite3-sys"];

/// Names with their versions.
type Graph = BTreeMap<String, Vec<String>>;

pub(crate) fn run(workspace: &Workspace, report: &mut Report) {
    report.step("tree", || {
        let mut broken = rules::violations(&workspace.packages);
        if workspace.has(CORE) {
            // Tests included: the core's own verdict needs no store either.
            let graph = resolved(&["--package", CORE, "--all-features", "--edges", "normal,build,dev"])?;
            broken.extend(without_drivers(CORE, &graph));
        }
        if workspace.has(SUITE) {
            let graph = resolved(&["--package", SUITE, "--no-default-features", "--edges", "normal,build"])?;
            let owner = format!("the library of {SUITE}");
            broken.extend(without_drivers(&owner, &graph));
            broken.extend(without_runner(&owner, &graph));
        }
        let lock = std::fs::read_to_string(workspace::root().join("Cargo.lock")).context("Cargo.lock")?;
        let locked = parse_lock(&lock)?;
        broken.extend(duplicates(&locked));
        if locked.contains_key(BANNED) {
            broken.extend(banned()?);
        }
        if broken.is_empty() {
            println!(
                "{} members, {} locked packages: no rule is broken",
                workspace.packages.len(),
                locked.len()
            );
            return Ok(Outcome::Passed);
        }
        broken.iter().for_each(|sentence| println!("- {sentence}"));
        bail!("{} broken, listed above", broken.len())
    });
}

/// What cargo resolves, on every platform.
fn resolved(selection: &[&str]) -> Result<Graph> {
    let mut command = cargo();
    command.args(["tree", "--target", "all", "--prefix", "none", "--format", "{p}"]).args(selection);
    process::announce(&command);
    parse_tree(&process::capture(&mut command)?)
}

/// The lock file also lists crates that no feature turns on, so its word on the banned crate is only a hint;
/// the graph of the whole workspace decides.
fn banned() -> Result<Option<String>> {
    let selection = ["--workspace", "--all-features", "--edges", "normal,build,dev"];
    if !resolved(&selection)?.contains_key(BANNED) {
        return Ok(None);
    }
    // Shown, because the sentence alone does not say who brought it in.
    let mut command = cargo();
    process::run(command.args(["tree", "--target", "all", "--invert", BANNED]).args(selection))?;
    Ok(Some(format!("`{BANNED}` is in the graph of the workspace; its dependants are above")))
}

/// Drivers and members other than the core, which neither the core nor the suite's library may have.
fn without_drivers(owner: &str, graph: &Graph) -> Vec<String> {
    let foreign = |name: &&String| {
        let member = rules::is_ours(name) && *name != CORE && *name != SUITE;
        member || DRIVERS.contains(&name.as_str()) || (owner == CORE && *name == SUITE)
    };
    graph.keys().filter(foreign).map(|name| format!("{owner} has `{name}` in its tree")).collect()
}

/// What only the suite's binary needs. A store that runs the suite from its tests would build it for nothing.
fn without_runner(owner: &str, graph: &Graph) -> Vec<String> {
    let foreign = RUNNER.iter().filter(|name| graph.contains_key(**name));
    foreign.map(|name| format!("{owner} has `{name}` in its tree, which only its binary needs")).collect()
}

fn duplicates(locked: &Graph) -> Vec<String> {
    let several = |name: &&&str| locked.get(**name).is_some_and(|versions| versions.len() > 1);
    let sentence =
        |name: &str| format!("{name} is locked in {} versions", locked.get(name).map_or(0, Vec::len));
    SINGLE.iter().filter(several).map(|name| sentence(name)).collect()
}

/// Reads `cargo tree --prefix none --format {p}`: `name vVERSION`, then a path or a mark.
fn parse_tree(text: &str) -> Result<Graph> {
    let mut graph = Graph::new();
    // With several roots cargo puts an empty line between them, and `[dev-dependencies]` above their part.
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('[')) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let version = words.next().and_then(|word| word.strip_prefix('v'));
        insert(&mut graph, name, version.with_context(|| format!("cargo tree printed `{line}`"))?);
    }
    ensure!(!graph.is_empty(), "cargo tree printed nothing");
    Ok(graph)
}

/// Reads the names and versions of a lock file. Its form is cargo's own and regular: one `name` line and one
/// `version` line in each `[[package]]`.
fn parse_lock(text: &str) -> Result<Graph> {
    let mut graph = Graph::new();
    for block in text.split("[[package]]").skip(1) {
        let field = |key: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            line.and_then(|rest| rest.strip_suffix('"'))
                .with_context(|| format!("a locked package has no {key}"))
        };
        insert(&mut graph, field("name")?, field("version")?);
    }
    ensure!(!graph.is_empty(), "Cargo.lock lists no package");
    Ok(graph)
}

fn insert(graph: &mut Graph, name: &str, version: &str) {
    let versions = graph.entry(name.to_owned()).or_default();
    if !versions.iter().any(|present| present == version) {
        versions.push(version.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "idem-conformance v0.1.0 (/w/idem-conformance)\n\
        idem-core v0.1.0 (/w/idem-core)\n\
        async-trait v0.1.89 (proc-macro)\n\
        syn v2.0.104\n\
        syn v2.0.104 (*)\n\
        \n\
        [dev-dependencies]\n\
        proptest v1.7.0\n";

    #[test]
    fn a_tree_is_read_whatever_follows_the_version() {
        let graph = parse_tree(TREE).unwrap();
        assert_eq!(graph.len(), 5);
        assert_eq!(graph["syn"], ["2.0.104"]);
        assert!(without_drivers("the library of idem-conformance", &graph).is_empty());
    }

    #[test]
    fn drivers_and_foreign_members_are_found_in_a_tree() {
        let with = format!("{TREE}sqlx-core v0.9.0\nidem-sqlite v0.1.0 (/w/idem-sqlite)\n");
        let graph = parse_tree(&with).unwrap();
        assert_eq!(without_drivers("the library of idem-conformance", &graph).len(), 2);
        let runner = parse_tree(&format!("{TREE}maud v0.27.0\n")).unwrap();
        assert_eq!(without_runner("the library of idem-conformance", &runner).len(), 1);
        assert_eq!(without_runner("the library of idem-conformance", &graph), Vec::<String>::new());
        // For the core the suite itself is foreign too.
        assert_eq!(without_drivers(CORE, &graph).len(), 3);
    }

    #[test]
    fn an_output_of_another_shape_is_an_error_and_not_an_empty_graph() {
        assert!(parse_tree("").is_err());
        assert!(parse_tree("idem-core 0.1.0\n").is_err());
        assert!(parse_lock("version = 4\n").is_err());
        assert!(parse_lock("[[package]]\nname = \"a\"\n").is_err());
    }

    #[test]
    fn two_versions_of_a_single_crate_are_found_in_a_lock_file() {
        let lock = "version = 4\n\n\
            [[package]]\nname = \"rusqlite\"\nversion = \"0.39.0\"\ndependencies = [\n \"libsqlite3-sys 0.37.0\",\n]\n\n\
            [[package]]\nname = \"rusqlite\"\nversion = \"0.43.0\"\n\n\
            [[package]]\nname = \"syn\"\nversion = \"1.0.0\"\n\n\
            [[package]]\nname = \"syn\"\nversion = \"2.0.0\"\n";
        let locked = parse_lock(lock).unwrap();
        assert_eq!(duplicates(&locked), ["rusqlite is locked in 2 versions"]);
        assert!(!locked.contains_key(BANNED));
    }
}
