//! What the command is asked for.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use idem_conformance::{Family, Scenario, scenarios};

/// Holds stores of the operation ledger against its contract, scenario by scenario.
#[derive(Debug, Parser)]
#[command(name = "idem-conformance", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the suite: on every store that can run here, or on those that are named.
    ///
    /// The exit status is 0 when nothing failed and everything that was required ran, 1 when not, 2 when the command is
    /// not understood.
    Run(Run),
    /// List the stores and the scenarios.
    List(Selection),
    /// Tell everything about a scenario or a rule.
    Explain {
        /// The id of a scenario, such as CC-001, or of a rule, such as G-10.
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A store, by its name or its URL; may be repeated.
    #[arg(long = "store", value_name = "STORE")]
    pub(crate) stores: Vec<String>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Makes the random choices; a failure tells the one that it was found with.
    #[arg(long, value_name = "N", env = "IDEM_SEED")]
    pub(crate) seed: Option<u64>,
    /// A store that must be there: one that is not fails instead of being skipped. May be repeated, or hold several with
    /// commas.
    #[arg(long, value_name = "STORE", value_delimiter = ',', env = "IDEM_REQUIRE")]
    pub(crate) require: Vec<String>,
    /// Write everything that was found as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Selection {
    /// A family, by its name or its letters (lease, LS); may be repeated.
    #[arg(long = "family", value_name = "FAMILY", value_parser = family)]
    pub(crate) families: Vec<Family>,
    /// A scenario, by its id (LS-006); may be repeated.
    #[arg(long = "id", value_name = "ID", value_parser = known_scenario)]
    pub(crate) ids: Vec<&'static str>,
}

impl Selection {
    /// Whether everything is selected.
    pub(crate) fn is_whole(&self) -> bool {
        self.families.is_empty() && self.ids.is_empty()
    }

    /// The scenarios that are selected, in the order of the catalogue.
    pub(crate) fn scenarios(&self) -> Vec<&'static Scenario> {
        let selected = |scenario: &&Scenario| {
            self.is_whole() || self.families.contains(&scenario.family()) || self.ids.contains(&scenario.id())
        };
        scenarios().filter(selected).collect()
    }
}

fn family(text: &str) -> Result<Family, String> {
    let found = Family::ALL.into_iter().find(|family| {
        family.name().eq_ignore_ascii_case(text) || family.prefix().eq_ignore_ascii_case(text)
    });
    let names = Family::ALL.map(Family::name).join(", ");
    found.ok_or_else(|| format!("there are {names}"))
}

fn known_scenario(text: &str) -> Result<&'static str, String> {
    let found = scenarios().find(|scenario| scenario.id().eq_ignore_ascii_case(text));
    found.map(Scenario::id).ok_or_else(|| "`idem-conformance list` names them all".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn families_and_ids_add_up() {
        let mut selection = Selection::default();
        assert_eq!(selection.scenarios().len(), scenarios().count());
        selection.families = vec![family("ls").unwrap()];
        let leases = selection.scenarios().len();
        assert!(leases > 10 && leases < scenarios().count());
        selection.ids = vec![known_scenario("cc-001").unwrap()];
        assert_eq!(selection.scenarios().len(), leases + 1);
        assert!(family("leases").is_err());
        assert!(known_scenario("CC-999").is_err());
    }
}
