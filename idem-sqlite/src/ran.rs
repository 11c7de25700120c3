//! The answers of a group, and who gets which when it was not committed.

use idem_core::{Error, ErrorKind, Result};

use crate::group::Answer;
use crate::local::LocalRun;
use crate::writer::Job;

/// Answers all jobs with one error.
pub(crate) fn fail(jobs: &mut Vec<Job>, error: &Error) {
    for job in jobs.drain(..) {
        job.answer(Err(error.clone()));
    }
}

/// The jobs that were run in a transaction, with the answers that they get after COMMIT.
#[derive(Default)]
pub(crate) struct Ran {
    jobs: Vec<(Job, Result<Answer>)>,
    pub(crate) closures: usize,
}

impl Ran {
    pub(crate) fn push(&mut self, job: Job, answer: Result<Answer>) {
        if !job.request().repeatable() {
            self.closures += 1;
        }
        self.jobs.push((job, answer));
    }

    /// After COMMIT.
    pub(crate) fn answer(self, untaken: &mut Vec<Answer>) {
        for (job, answer) in self.jobs {
            if let Some(Ok(answer)) = job.answer(answer) {
                untaken.push(answer);
            }
        }
    }

    /// After a COMMIT that failed: nobody's answer holds (G-72).
    pub(crate) fn fail(self, error: &Error) {
        for (job, _) in self.jobs {
            job.answer(Err(error.clone()));
        }
    }

    /// The last job's statement rolled all back. If that was a closure, the requests of others run again; otherwise
    /// the store has a problem that is not theirs either, and they are told so.
    pub(crate) fn rolled_back_by_last(mut self, again: &mut Vec<Job>) {
        let Some((culprit, answer)) = self.jobs.pop() else { return };
        let closure = !culprit.request().repeatable();
        let error = match &answer {
            Err(error) if !closure => Error::with_source(
                ErrorKind::Unavailable,
                "the group's transaction was rolled back, because a statement of another request failed: nothing was \
                 applied; retry",
                error.clone(),
            ),
            _ => Error::indeterminate(
                "the group's transaction was ended by a statement of another closure: repeat it with the same attempt",
            ),
        };
        culprit.answer(answer);
        for (job, _) in self.jobs {
            if closure && job.request().repeatable() {
                again.push(job);
            } else {
                job.answer(Err(error.clone()));
            }
        }
    }

    /// A constraint that is checked at COMMIT failed, and all was rolled back. Only closures write to tables with such
    /// constraints, so everybody else runs again.
    pub(crate) fn rolled_back_by_closure(self, error: rusqlite::Error, again: &mut Vec<Job>) {
        let mut error = Some(error);
        for (job, _) in self.jobs {
            if job.request().repeatable() {
                again.push(job);
            } else if let Some(error) = error.take_if(|_| self.closures == 1) {
                job.answer(Ok(Box::new(LocalRun::RolledBack(error.into()))));
            } else {
                job.answer(Err(Error::unavailable(
                    "a deferred constraint failed at COMMIT, in this closure or in another of the same group: all \
                     were rolled back; retry, and they will be committed one by one",
                )));
            }
        }
    }
}
