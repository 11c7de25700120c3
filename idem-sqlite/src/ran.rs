//! The answers of a group, and who gets which when it was not committed.

use idem_core::request::Release;
use idem_core::{Error, ErrorKind};

use crate::group::Ask;
use crate::writer::Job;

/// Gives a job back to its caller with its answer. If nobody takes a grant any more, this is how to release it.
pub(crate) fn give(job: Job) -> Option<Release> {
    let untaken: Box<dyn Ask> = job.answer_with(|asked| asked)?;
    untaken.release()
}

fn give_error(mut job: Job, error: Error) {
    job.request_mut().fail(error);
    give(job);
}

/// Answers all jobs with one error.
pub(crate) fn fail(jobs: &mut Vec<Job>, error: &Error) {
    for job in jobs.drain(..) {
        give_error(job, error.clone());
    }
}

/// The jobs that were run in a transaction, and get their answers after COMMIT.
#[derive(Default)]
pub(crate) struct Ran {
    jobs: Vec<Job>,
    pub(crate) closures: usize,
}

impl Ran {
    pub(crate) fn push(&mut self, job: Job) {
        if !job.request().repeatable() {
            self.closures += 1;
        }
        self.jobs.push(job);
    }

    /// After COMMIT. What nobody took is to be released.
    pub(crate) fn answer(self, untaken: &mut Vec<Release>) {
        untaken.extend(self.jobs.into_iter().filter_map(give));
    }

    /// After a COMMIT that failed: nobody's answer holds (G-72).
    pub(crate) fn fail(mut self, error: &Error) {
        fail(&mut self.jobs, error);
    }

    /// The last job's statement rolled all back. If that was a closure, the requests of others run again; otherwise
    /// the store has a problem that is not theirs either, and they are told so.
    pub(crate) fn rolled_back_by_last(mut self, again: &mut Vec<Job>) {
        let Some(culprit) = self.jobs.pop() else { return };
        let closure = !culprit.request().repeatable();
        let error = match culprit.request().error() {
            Some(error) if !closure => Error::with_source(
                ErrorKind::Unavailable,
                "the group's transaction was rolled back, because a statement of another request failed: nothing was \
                 applied; retry",
                error.clone(),
            ),
            _ => Error::indeterminate(
                "the group's transaction was ended by a statement of another closure: repeat it with the same attempt",
            ),
        };
        give(culprit);
        for job in self.jobs {
            if closure && job.request().repeatable() {
                again.push(job);
            } else {
                give_error(job, error.clone());
            }
        }
    }

    /// A constraint that is checked at COMMIT failed, and all was rolled back. Only closures write to tables with such
    /// constraints, so everybody else runs again.
    pub(crate) fn rolled_back_by_closure(self, error: rusqlite::Error, again: &mut Vec<Job>) {
        let mut error = Some(error);
        for mut job in self.jobs {
            if job.request().repeatable() {
                again.push(job);
            } else if let Some(error) = error.take_if(|_| self.closures == 1) {
                job.request_mut().rolled_back(error);
                give(job);
            } else {
                let error = Error::unavailable(
                    "a deferred constraint failed at COMMIT, in this closure or in another of the same group: all \
                     were rolled back; retry, and they will be committed one by one",
                );
                give_error(job, error);
            }
        }
    }
}
