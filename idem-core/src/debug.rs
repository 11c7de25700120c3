//! `Debug` of what carries an application's bytes: lengths in place of contents (G-91).
//!
//! Each type is taken apart by all its fields, so that a new one is not left out.

use std::fmt;

use bytes::Bytes;

use crate::answer::Grant;
use crate::record::Record;
use crate::request::{Register, SaveCheckpoint};

/// Shows how many bytes there are.
struct Length<'b>(&'b Bytes);

impl fmt::Debug for Length<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            fingerprint,
            state,
            version,
            effect,
            registered,
            payload,
            current,
            earlier,
            earlier_lease_until,
            fence_floor,
            checkpoints,
            parked,
            resolution,
            outcome,
            created_at,
            updated_at,
            first_grant_at,
            completed_at,
            response_until,
            identity_until,
            traceparent,
        } = self;
        f.debug_struct("Record")
            .field("id", id)
            .field("fingerprint", fingerprint)
            .field("state", state)
            .field("version", version)
            .field("effect", effect)
            .field("registered", registered)
            .field("payload", &payload.as_ref().map(Length))
            .field("current", current)
            .field("earlier", earlier)
            .field("earlier_lease_until", earlier_lease_until)
            .field("fence_floor", fence_floor)
            .field("checkpoints", checkpoints)
            .field("parked", parked)
            .field("resolution", resolution)
            .field("outcome", outcome)
            .field("created_at", created_at)
            .field("updated_at", updated_at)
            .field("first_grant_at", first_grant_at)
            .field("completed_at", completed_at)
            .field("response_until", response_until)
            .field("identity_until", identity_until)
            .field("traceparent", traceparent)
            .finish()
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            attempt,
            number,
            fence,
            mode,
            remaining_ms,
            lease_until,
            first_grant_at,
            effect,
            payload,
            earlier,
            checkpoints,
            again,
        } = self;
        f.debug_struct("Grant")
            .field("id", id)
            .field("attempt", attempt)
            .field("number", number)
            .field("fence", fence)
            .field("mode", mode)
            .field("remaining_ms", remaining_ms)
            .field("lease_until", lease_until)
            .field("first_grant_at", first_grant_at)
            .field("effect", effect)
            .field("payload", &payload.as_ref().map(Length))
            .field("earlier", earlier)
            .field("checkpoints", checkpoints)
            .field("again", again)
            .finish()
    }
}

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, fingerprints, payload } = self;
        f.debug_struct("Register")
            .field("id", id)
            .field("fingerprints", fingerprints)
            .field("payload", &payload.as_ref().map(Length))
            .finish()
    }
}

impl fmt::Debug for SaveCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, name, value, lease } = self;
        f.debug_struct("SaveCheckpoint")
            .field("held", held)
            .field("name", name)
            .field("value", &Length(value))
            .field("lease", lease)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transition::{Context, Transition, Write};
    use crate::{AttemptId, Claim, Claimed, Fingerprint, Label, Lease, OperationId, Timestamp};

    /// A registered operation with a payload, granted, and a fact recorded: nothing of it is shown.
    #[test]
    fn no_content_is_shown() {
        let id = OperationId::new("acme", "charge/v1", "secret-key").unwrap();
        let context = Context::at(Timestamp::from_millis(1_000));
        let intent = Fingerprint::bytes(b"secret");
        let register = Register::new(id.clone(), intent).payload("secret");
        let Write::Put(registered) = register.apply(None, &context).unwrap().write else { panic!() };
        let owner = Label::new("worker").unwrap();
        let claim =
            Claim::new(id, intent, owner.clone()).attempt(AttemptId::from_bytes(*b"secret-secret-id"));
        let step = claim.apply(Some(&registered), &context).unwrap();
        let (Claimed::Granted(grant), Write::Put(granted)) = (step.answer, step.write) else { panic!() };
        let fact = SaveCheckpoint::new(claim.held(), owner, "secret", Lease::default());
        let Write::Put(saved) = fact.apply(Some(&granted), &context).unwrap().write else { panic!() };
        let shown = format!("{register:?} {registered:?} {claim:?} {grant:?} {fact:?} {saved:?}");
        assert!(!shown.contains("secret") && !shown.contains("115, 101"), "{shown}");
        assert_eq!(shown.matches("payload: Some(<6 bytes>)").count(), 4, "{shown}");
        assert!(shown.contains("value: <6 bytes>"), "{shown}");
    }
}
