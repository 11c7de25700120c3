//! Which intent is which.

use idem_core::answer::{Claimed, Registered, Released};
use idem_core::request::{Claim, Register, Release};
use idem_core::{Fingerprints, Record, Result, State, View};

use crate::bent::{Bend, Handle};

/// The fingerprint that is stored, as if it were the caller's.
fn stored_as_own(record: Option<&Record>) -> Option<Fingerprints> {
    record.and_then(|record| record.fingerprint).map(Fingerprints::from)
}

/// Compares fingerprints only while the operation runs.
#[derive(Debug)]
pub(crate) struct ConflictOnlyWhileRunning;

/// Answers "in progress" before it compares fingerprints.
#[derive(Debug)]
pub(crate) struct BusyBeforeConflict;

/// Claims and registers with the stored fingerprint where `blind` says so.
fn blindly(at: &Handle, request: &Claim, blind: impl Fn(&Record) -> bool) -> Claim {
    let mut request = request.clone();
    let stored = at.stored(&request.id).filter(blind);
    if let Some(own) = stored_as_own(stored.as_ref()) {
        request.fingerprints = own;
    }
    request
}

fn register_blindly(at: &Handle, request: &Register, blind: impl Fn(&Record) -> bool) -> Register {
    let mut request = request.clone();
    let stored = at.stored(&request.id).filter(blind);
    if let Some(own) = stored_as_own(stored.as_ref()) {
        request.fingerprints = own;
    }
    request
}

impl Bend for ConflictOnlyWhileRunning {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        at.apply(&blindly(at, request, |record| record.state != State::Processing))
    }

    fn register(&self, at: &Handle, request: &Register) -> Result<Registered> {
        at.apply(&register_blindly(at, request, |record| record.state != State::Processing))
    }
}

impl Bend for BusyBeforeConflict {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let context = at.context();
        at.apply(&blindly(at, request, |record| context.view(Some(record)) == View::Running))
    }

    fn register(&self, at: &Handle, request: &Register) -> Result<Registered> {
        let context = at.context();
        at.apply(&register_blindly(at, request, |record| context.view(Some(record)) == View::Running))
    }
}

/// A takeover brings its own fingerprint.
#[derive(Debug)]
pub(crate) struct TakeoverReplaces;

impl Bend for TakeoverReplaces {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let context = at.context();
        at.edit(&request.id, |record| {
            if context.view(Some(record)) == View::Lapsed {
                record.fingerprint = Some(*request.fingerprints.first());
            }
        });
        at.apply(request)
    }
}

/// A registration writes its payload before it compares.
#[derive(Debug)]
pub(crate) struct ConflictOverwrites;

impl Bend for ConflictOverwrites {
    fn register(&self, at: &Handle, request: &Register) -> Result<Registered> {
        let answer = at.apply(request)?;
        if answer == Registered::Conflict {
            at.edit(&request.id, |record| record.payload.clone_from(&request.payload));
        }
        Ok(answer)
    }
}

/// Compares digests and not what kind of fingerprint they belong to.
#[derive(Debug)]
pub(crate) struct DigestOnly;

impl Bend for DigestOnly {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        at.apply(&blindly(at, request, |record| {
            let stored = record.fingerprint.map(|stored| *stored.digest());
            request.fingerprints.iter().any(|own| Some(*own.digest()) == stored)
        }))
    }
}

/// Every release forgets the intent.
#[derive(Debug)]
pub(crate) struct ReleaseForgets;

impl Bend for ReleaseForgets {
    fn release(&self, at: &Handle, request: &Release) -> Result<Released> {
        let answer = at.apply(request)?;
        if matches!(answer, Released::Released { .. }) {
            at.edit(&request.held.id, |record| record.fingerprint = None);
        }
        Ok(answer)
    }
}
