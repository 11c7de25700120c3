//! Holds the hosted workflows and `.ci/run` to the commands of this crate.
//!
//! A shell line in a workflow is a check that nobody can run at home. So every step is an action from a short
//! list that prepares the machine, or exactly `cargo xtask ci JOB`.

use saphyr::{LoadableYamlNode, Yaml};

use crate::jobs;
use crate::workspace;

/// Actions that fetch the source, the toolchain, a tool or a cache, and decide nothing.
const ACTIONS: &[&str] =
    &["actions/checkout", "Swatinem/rust-cache", "taiki-e/install-action", "actions/upload-artifact"];

/// Every step of a workflow that breaks the rule, one sentence each. Also says how many steps run a job, since
/// a file in which no step was recognised breaks nothing.
fn check(text: &str) -> (usize, Vec<String>) {
    let documents = match Yaml::load_from_str(text) {
        Ok(documents) => documents,
        Err(error) => return (0, vec![format!("no YAML: {error}")]),
    };
    let [document] = documents.as_slice() else { return (0, vec!["not one document".to_owned()]) };
    let Some(jobs) = document.as_mapping_get("jobs").and_then(Yaml::as_mapping) else {
        return (0, vec!["no jobs".to_owned()]);
    };
    let (mut run, mut broken) = (0, Vec::new());
    for (name, job) in jobs {
        let name = name.as_str().unwrap_or("?");
        let Some(steps) = job.as_mapping_get("steps").and_then(Yaml::as_sequence) else {
            broken.push(format!("job {name}: no steps"));
            continue;
        };
        for step in steps {
            match check_step(step) {
                Ok(ran) => run += usize::from(ran),
                Err(reason) => broken.push(format!("job {name}: {reason}")),
            }
        }
        // Either would let a failed job look green.
        for holder in steps.iter().chain([job]) {
            if holder.as_mapping_get("continue-on-error").is_some() {
                broken.push(format!("job {name}: continue-on-error"));
            }
        }
    }
    (run, broken)
}

/// `Ok(true)` for a step that runs a job of the gate, `Ok(false)` for one that prepares.
fn check_step(step: &Yaml<'_>) -> Result<bool, String> {
    let text = |field| step.as_mapping_get(field).map(|value| value.as_str().unwrap_or_default());
    match (text("uses"), text("run")) {
        (Some(action), None) => {
            let name = action.split_once('@').map(|(name, _version)| name);
            let known = name.is_some_and(|name| ACTIONS.contains(&name));
            if known { Ok(false) } else { Err(format!("unknown action or no version: {action}")) }
        }
        (None, Some(line)) => {
            let job = line.strip_prefix("cargo xtask ci ");
            let known = job.is_some_and(|job| jobs::JOBS.iter().any(|known| known.name == job));
            if !known {
                return Err(format!("not exactly `cargo xtask ci JOB`: {line}"));
            }
            if text("shell").is_some() || text("working-directory").is_some() {
                return Err(format!("a shell or folder of its own: {line}"));
            }
            Ok(true)
        }
        _ => Err("a step with neither or both of uses and run".to_owned()),
    }
}

#[test]
fn every_workflow_runs_jobs_of_the_gate_and_nothing_else() {
    let folder = workspace::root().join(".github/workflows");
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let (run, broken) = check(&std::fs::read_to_string(&path).unwrap());
        assert!(broken.is_empty(), "{}: {broken:#?}", path.display());
        assert!(run > 0, "{} runs no job", path.display());
        files += 1;
    }
    assert!(files > 0, "no workflow");
}

#[test]
fn the_workflow_covers_everything_that_all_stands_for() {
    let text = std::fs::read_to_string(workspace::root().join(".github/workflows/ci.yml")).unwrap();
    for job in jobs::ALL {
        assert!(
            text.lines().any(|line| line.trim_start() == format!("- run: cargo xtask ci {job}")),
            "{job}"
        );
    }
}

#[test]
fn a_step_of_another_kind_is_refused() {
    let workflow = |steps: &str| format!("on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n{steps}");
    let good = "      - uses: actions/checkout@v4\n      - run: cargo xtask ci fmt\n";
    assert_eq!(check(&workflow(good)), (1, Vec::new()));
    for bad in [
        "      - run: cargo test\n",
        "      - run: cargo xtask ci nothing\n",
        "      - run: cargo xtask ci fmt && true\n",
        "      - run: |\n          cargo xtask ci fmt\n          true\n",
        "      - run: cargo xtask ci fmt\n        shell: python\n",
        "      - run: cargo xtask ci fmt\n        continue-on-error: true\n",
        "      - uses: somebody/something@v1\n",
        "      - uses: actions/checkout\n",
        "      - name: nothing\n",
    ] {
        let (_run, broken) = check(&workflow(&format!("{good}{bad}")));
        assert_eq!(broken.len(), 1, "{bad}: {broken:?}");
    }
    for bad in ["", "on: push\n", "jobs: [", "on: push\njobs:\n  a:\n    runs-on: x\n"] {
        assert_eq!(check(bad).1.len(), 1, "{bad}");
    }
}

/// The local gate and `all` must not drift apart: same jobs, same order, the tests by the name that the README
/// gives them.
#[test]
fn the_local_gate_runs_what_all_stands_for() {
    let text = std::fs::read_to_string(workspace::root().join(".ci/run")).unwrap();
    let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("cargo xtask ")).collect();
    let (last, earlier) = jobs::ALL.split_last().unwrap();
    assert_eq!(commands, [format!("{last} --after {}", earlier.join(" "))]);
}
