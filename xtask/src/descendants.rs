//! Ends a process and everything it started. For a step that hangs: ending cargo alone would leave the hung
//! test running, and holding the lock, the port or the processor that the next step needs.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

/// Kills a child that still runs and, where the system shows who started whom, all its descendants. Not for one
/// that ended: its number may be somebody else's by now.
pub(crate) fn end(child: &mut Child) {
    // Looked up before anything is ended: an orphan belongs to nobody any more.
    let below = below(child.id(), &parents());
    if !below.is_empty() {
        // Signals are out of the standard library's reach; a shell has them built in.
        let script = "kill -KILL \"$@\" 2> /dev/null";
        let mut kill = Command::new("sh");
        kill.args(["-c", script, "sh"]).args(below.iter().map(u32::to_string));
        // One that ended by itself meanwhile is no error.
        drop(kill.stdin(Stdio::null()).status());
    }
    drop(child.kill());
}

/// Everything that descends from `ancestor`.
fn below(ancestor: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut generation = vec![ancestor];
    // Each process has one parent, so no process is found twice and this ends.
    while !generation.is_empty() {
        let child_of = |(_, parent): &(&u32, &u32)| generation.contains(parent);
        generation = parents.iter().filter(child_of).map(|(process, _)| *process).collect();
        found.extend(&generation);
    }
    found
}

/// Every process with its parent, from `/proc`. Empty on systems without it.
fn parents() -> BTreeMap<u32, u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter_map(|process| Some((process, parent(process)?))).collect()
}

fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    parse_parent(&stat)
}

/// `PID (NAME) STATE PARENT …`, where the name may itself contain blanks and brackets.
fn parse_parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_whatever_the_process_is_called() {
        assert_eq!(parse_parent("12 (a) b) (c) S 7 12 12 0"), Some(7));
        assert_eq!(parse_parent("12 (a"), None);
    }

    #[test]
    fn descendants_of_all_generations_are_found_and_nobody_else() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 3)]);
        assert_eq!(below(2, &parents), [3, 4, 6]);
        assert!(below(4, &parents).is_empty());
    }
}
