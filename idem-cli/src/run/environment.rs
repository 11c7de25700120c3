//! What the command and the reconciler find in their environment.

use idem_core::ledger::Attempt;
use idem_core::record::Mode;
use serde::Serialize;

/// The variables that tell a command which attempt it is.
pub(crate) fn of(attempt: &Attempt) -> Vec<(&'static str, String)> {
    let grant = attempt.grant();
    let mode = match grant.mode {
        Mode::Recover => "recover",
        _ => "execute",
    };
    vec![
        ("IDEM_KEY", grant.id.key().to_owned()),
        ("IDEM_TENANT", grant.id.tenant().to_owned()),
        ("IDEM_OPERATION", grant.id.operation().to_owned()),
        ("IDEM_ATTEMPT", grant.number.to_string()),
        ("IDEM_FENCE", grant.fence.to_string()),
        ("IDEM_MODE", mode.to_owned()),
        ("IDEM_DOWNSTREAM_KEY", attempt.downstream_key().to_string()),
        ("IDEM_LEASE_UNTIL_MS", grant.lease_until.as_millis().to_string()),
    ]
}

#[derive(Serialize)]
struct Earlier<'a> {
    number: u32,
    owner: &'a str,
    fence: u64,
    started_ms: u64,
    lease_until_ms: u64,
}

/// The same for a reconciler, with the attempts before this one in `IDEM_EARLIER`, as a JSON array.
pub(crate) fn of_reconciler(attempt: &Attempt) -> Vec<(&'static str, String)> {
    let earlier: Vec<_> = attempt
        .earlier()
        .iter()
        .map(|earlier| Earlier {
            number: earlier.number,
            owner: earlier.owner.as_str(),
            fence: earlier.fence.get(),
            started_ms: earlier.started_at.as_millis(),
            lease_until_ms: earlier.lease_until.as_millis(),
        })
        .collect();
    let mut environment = of(attempt);
    // Numbers and checked texts always have a JSON form.
    environment.push(("IDEM_EARLIER", serde_json::to_string(&earlier).unwrap_or_default()));
    environment
}
