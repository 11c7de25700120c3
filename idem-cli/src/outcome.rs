//! How a command's end is kept as the outcome of an operation, and read back.
//!
//! | part | what it is |
//! |---|---|
//! | kind | `Success` for exit status 0, else `Failure` of class `exit-N` |
//! | body | the bytes of stdout, also when there are none |
//! | header `exit` | the exit status in decimal |
//! | header `stderr` | the bytes of stderr, if there are any |
//!
//! An output that is larger than the store keeps has no content; its lengths and digests are in the reference.

use bytes::Bytes;
use idem_core::{Content, Outcome, OutcomeKind, StoredOutcome};
use sha2::{Digest, Sha256};

use crate::run::spool::Recorded;

const EXIT: &[u8] = b"exit";
const STDERR: &[u8] = b"stderr";

/// Bytes of an outcome that are neither stdout nor stderr, at most.
const OVERHEAD_BYTES: usize = EXIT.len() + "255".len() + STDERR.len();

/// How many bytes of stdout and stderr together fit into a store that keeps `body_bytes_max`.
pub(crate) const fn room(body_bytes_max: usize) -> usize {
    body_bytes_max.saturating_sub(OVERHEAD_BYTES)
}

/// The outcome of a command that exited with `exit`.
pub(crate) fn of(exit: u8, stdout: &Recorded, stderr: &Recorded) -> Outcome {
    let outcome = match exit {
        0 => Outcome::success(),
        code => Outcome::failure(&format!("exit-{code}")),
    };
    let (Some(out), Some(err)) = (&stdout.bytes, &stderr.bytes) else {
        let mut both = Sha256::new();
        both.update(stdout.sha256);
        both.update(stderr.sha256);
        return outcome
            .reference(&format!("stdout {}; stderr {}", described(stdout), described(stderr)))
            .too_large(stdout.total + stderr.total, both.finalize().into());
    };
    let outcome = outcome.body(out.clone()).header(EXIT, exit.to_string());
    if err.is_empty() { outcome } else { outcome.header(STDERR, err.clone()) }
}

fn described(stream: &Recorded) -> String {
    let digits: String = stream.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{} bytes sha256:{digits}", stream.total)
}

/// What is replayed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) exit: u8,
    pub(crate) stdout: Bytes,
    pub(crate) stderr: Bytes,
}

/// What a stored outcome replays; `None` when its content is not kept. An outcome that another program stored has no
/// exit status: 0 for a success, 1 for a failure.
pub(crate) fn output(stored: &StoredOutcome) -> Option<Output> {
    let Content::Kept { body, headers } = &stored.content else { return None };
    let header = |name: &[u8]| headers.iter().find(|header| header.name == name).map(|header| &header.value);
    let exit = header(EXIT)
        .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok())
        .unwrap_or(u8::from(stored.kind != OutcomeKind::Success));
    let stderr = header(STDERR).cloned().unwrap_or_default();
    Some(Output { exit, stdout: body.clone().unwrap_or_default(), stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(bytes: &'static [u8]) -> Recorded {
        Recorded::of(Bytes::from_static(bytes))
    }

    fn stored(outcome: &Outcome) -> StoredOutcome {
        StoredOutcome::of(outcome, outcome.digest(), None)
    }

    #[test]
    fn what_a_command_printed_comes_back() {
        for exit in [0, 1, 255] {
            for (out, err) in [(&b""[..], &b""[..]), (b"a\0\xff\n", b"exit"), (b"", b"\n")] {
                let outcome = of(exit, &recorded(out), &recorded(err));
                let output = output(&stored(&outcome)).unwrap();
                assert_eq!((output.exit, &output.stdout[..], &output.stderr[..]), (exit, out, err));
                assert!(outcome.content_bytes() <= out.len() + err.len() + OVERHEAD_BYTES);
            }
        }
    }

    #[test]
    fn what_is_too_large_is_described_for_sha256sum() {
        let large = Recorded { bytes: None, total: 1 << 32, sha256: [0xab; 32] };
        let outcome = of(3, &large, &recorded(b""));
        assert!(outcome.is_larger_than(usize::MAX));
        let stored = stored(&outcome);
        assert_eq!(output(&stored), None);
        let reference = stored.reference.unwrap();
        assert!(reference.starts_with("stdout 4294967296 bytes sha256:abab"), "{reference}");
        assert!(reference.ends_with("b855"), "the digest of nothing: {reference}");
        assert!(!stored.cut);
    }

    #[test]
    fn an_outcome_of_another_program_has_an_exit_status_too() {
        let success = output(&stored(&Outcome::success().body("x"))).unwrap();
        assert_eq!((success.exit, &success.stdout[..]), (0, &b"x"[..]));
        assert_eq!(output(&stored(&Outcome::failure("declined"))).unwrap().exit, 1);
    }
}
