//! `list`: the stores and the scenarios.

use idem_conformance::Family;

use crate::arguments::Selection;
use crate::stores::STORES;

pub(crate) fn list(selection: &Selection) -> String {
    let mut text = String::new();
    if selection.is_whole() {
        text += "stores\n";
        for row in STORES {
            let absent = if row.built_in() { "" } else { " (not built in)" };
            text += &format!("  {:<10} {}{absent}\n", row.name, row.about);
        }
    }
    let scenarios = selection.scenarios();
    for family in Family::ALL {
        let members = scenarios.iter().filter(|scenario| scenario.family() == family);
        for (index, scenario) in members.enumerate() {
            if index == 0 {
                text += &format!("{}{}\n", if text.is_empty() { "" } else { "\n" }, family.name());
            }
            let needs: String = scenario.capabilities().iter().map(|need| need.letter()).collect();
            text += &format!("  {} {needs:<4} {}\n", scenario.id(), scenario.title().replace('_', " "));
        }
    }
    text
}
