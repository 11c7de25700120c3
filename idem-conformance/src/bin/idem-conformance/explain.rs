//! `explain`: everything about a scenario or a rule.

use idem_conformance::{Proof, Rule, Scenario, rule, scenario, scenarios};

use crate::stores::STORES;

pub(crate) fn explain(id: &str) -> Result<String, String> {
    let id = id.to_ascii_uppercase();
    if let Some(scenario) = scenario(&id) {
        return Ok(of_scenario(scenario));
    }
    rule(&id).map(of_rule).ok_or_else(|| {
        format!("there is no scenario and no rule {id}; `idem-conformance list` names the scenarios")
    })
}

fn of_scenario(scenario: &Scenario) -> String {
    let mut text =
        format!("{} {}\n\n{}\n\n", scenario.id(), scenario.title().replace('_', " "), scenario.shows());
    text += &format!("family    {}\n", scenario.family().name());
    for (index, id) in scenario.rules().iter().enumerate() {
        let title = rule(id).map_or("", |rule| rule.title);
        text += &format!("{}{id} {title}\n", if index == 0 { "rules     " } else { "          " });
    }
    let needs: Vec<_> = scenario.capabilities().iter().map(ToString::to_string).collect();
    text +=
        &format!("needs     {}\n", if needs.is_empty() { "nothing".to_owned() } else { needs.join(", ") });
    let evidence: Vec<_> =
        scenario.minimum().iter().map(|(fact, least)| format!("{least} {}", fact.name())).collect();
    text += &format!("evidence  at least {}\n", evidence.join(", "));
    for row in STORES {
        let why = match row.harness(None) {
            Ok(harness) => harness.capabilities().lacks(scenario.capabilities()),
            Err(reason) => Some(reason),
        };
        if let Some(why) = why {
            text += &format!("not on    {}: {why}\n", row.name);
        }
    }
    text + &format!("run it    idem-conformance run --id {}\n", scenario.id())
}

fn of_rule(rule: &Rule) -> String {
    let mut text = format!("{} {}\n\n", rule.id, rule.title);
    if let Proof::Elsewhere(reason) = rule.proof {
        return text + &format!("No scenario: {reason}.\n");
    }
    for scenario in scenarios().filter(|scenario| scenario.rules().contains(&rule.id)) {
        text += &format!("  {} {}\n", scenario.id(), scenario.shows());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_and_every_rule_is_explained() {
        for scenario in scenarios() {
            let text = explain(scenario.id()).unwrap();
            assert!(text.contains(scenario.shows()) && text.contains(scenario.rules()[0]), "{text}");
        }
        for rule in idem_conformance::RULES {
            assert!(explain(rule.id).unwrap().lines().count() >= 3, "{}", rule.id);
        }
        assert!(explain("cc-001").unwrap().starts_with("CC-001 one winner"));
        assert!(explain("CC-999").is_err());
    }
}
