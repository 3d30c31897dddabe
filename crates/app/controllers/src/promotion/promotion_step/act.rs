//! Carries out what was planned. Every effect may be repeated without harm.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kardinal_cluster::{Answer, Clock};
use kardinal_git::{Author, ChangeError, Committed, Order};
use kardinal_promotion::promotion_step::{
    CommitOrder, Effect, FINALIZER, ForgeEffect, GitEffect, MANAGER, Outcome, Push, Retry, StepEffect,
    objection, why,
};
use kardinal_scm::{self as scm, Forge};
use kardinal_vcs::{Barrier, PullRequest, PullRequestState, Remote};

use super::edit::Edits;
use super::observe::{self, Observation};
use super::{Kind, confirm, task};
use crate::forges::Trouble;
use crate::promotion::access;

/// Carries one effect out and says what came of it. It is given up when another replica may do the same.
pub(super) async fn act(kind: &Kind, observation: &Observation, effect: &Effect) -> Outcome {
    let done = kind.context.leadership.guard(carry_out(kind, observation, effect)).await;
    done.unwrap_or_else(|error| Outcome::Fault { message: error.to_string(), retry: Retry::Soon })
}

async fn carry_out(kind: &Kind, observation: &Observation, effect: &Effect) -> Outcome {
    match effect {
        Effect::Step(of_step) => change_step(kind, observation, *of_step).await,
        Effect::Git(GitEffect::Commit(order)) => commit(kind, observation, (effect, order)).await,
        Effect::Git(GitEffect::DeleteBranch { branch, commit }) => {
            delete_branch(kind, observation, branch, commit.as_deref()).await
        }
        Effect::Forge(of_forge) => forge(kind, observation, of_forge).await,
        Effect::CallTask(call) => task::call(&kind.context, &observation.key.0, call).await,
    }
}

async fn change_step(kind: &Kind, observation: &Observation, effect: StepEffect) -> Outcome {
    let (context, id, metadata) = (&kind.context, observation.id(), &observation.step.metadata);
    of_write(match effect {
        StepEffect::ForgetStatus => context.forget_status(&id, metadata, MANAGER).await,
        StepEffect::AddFinalizer => context.set_finalizer(&id, metadata, FINALIZER, true, MANAGER).await,
        StepEffect::RemoveFinalizer => context.set_finalizer(&id, metadata, FINALIZER, false, MANAGER).await,
    })
}

/// What came of a write to the step itself: one that is gone needs none any more.
fn of_write(answer: Answer<()>) -> Outcome {
    match answer {
        Answer::Done(_) | Answer::Gone(_) => Outcome::Done,
        Answer::Conflict(message) | Answer::Refused(message) | Answer::Fault(message) => {
            Outcome::Fault { message, retry: Retry::Soon }
        }
    }
}

/// The repository of the step, with the credentials for it.
async fn remote(kind: &Kind, observation: &Observation) -> Result<Remote, Trouble> {
    let access = access::of_step(&observation.key.0, &observation.step)?;
    kind.context.remote(&access).await
}

async fn delete_branch(
    kind: &Kind,
    observation: &Observation,
    branch: &str,
    commit: Option<&str>,
) -> Outcome {
    let repositories = &kind.context.repositories;
    let remote = match remote(kind, observation).await {
        Ok(remote) => remote,
        Err(trouble) => return trouble.into(),
    };
    let held = match commit {
        Some(commit) => Ok(Some(commit.to_owned())),
        None => repositories.tip(&remote, branch).await,
    };
    let deleted = match held {
        Ok(Some(commit)) => repositories.delete_branch(&remote, branch, &commit).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    match deleted {
        Ok(()) => Outcome::Done,
        Err(error) => of_git(kind, observation, error),
    }
}

async fn commit(kind: &Kind, observation: &Observation, (effect, order): (&Effect, &CommitOrder)) -> Outcome {
    let context = &kind.context;
    let remote = match remote(kind, observation).await {
        Ok(remote) => remote,
        Err(trouble) => return trouble.into(),
    };
    let edits = Arc::new(Edits::new(context.clone(), &observation.key.0, remote.clone(), order));
    let (change, mut questions) = confirm::confirmed(edits.clone());
    let order = Order {
        base: order.base.clone(),
        branch: order.branch.clone(),
        message: order.message.clone(),
        author: Author {
            name: "kardinal".to_owned(),
            email: "kardinal@localhost".to_owned(),
            time: order.time,
        },
        identity: order.identity.clone(),
        replaces: order.replaces.clone(),
        change: Arc::new(change),
    };
    let started = std::time::Instant::now();
    let mut objection = None;
    let mut commit = context.repositories.commit(&remote, &order);
    let done = loop {
        tokio::select! {
            done = &mut commit => break done,
            Some(question) = questions.recv() => {
                objection = object(kind, observation, effect, &question.files).await;
                question.answer(objection.is_none());
            }
        }
    };
    context.metrics.git("commit", started.elapsed());
    if let Some(objection) = objection {
        return objection;
    }
    match done {
        Ok(Committed { commit, parent, kind, files }) => Outcome::Committed {
            commit,
            base: parent,
            push: match kind {
                kardinal_git::Outcome::Pushed => Push::Made,
                kardinal_git::Outcome::AlreadyThere => Push::Found,
                kardinal_git::Outcome::NothingToDo => Push::NotNeeded,
            },
            files,
            moves: edits.moves(),
            source: edits.source(),
        },
        Err(kardinal_git::Error::Change(error)) => match edits.trouble() {
            // Not the edit failed but the repository that it reads from.
            Some(trouble) => of_git(kind, observation, trouble),
            None => of_change(error, edits.failed_task()),
        },
        Err(error) => of_git(kind, observation, error),
    }
}

/// Looks at everything once more before a push, which fetching and editing may have held up for long.
async fn object(
    kind: &Kind,
    observation: &Observation,
    effect: &Effect,
    files: &[String],
) -> Option<Outcome> {
    let Ok(now) = observe::observe(kind, &observation.key, &observation.remembered).await else {
        return Some(Outcome::Held {
            why: vec![why::next("what allowed the change cannot be seen any more")],
        });
    };
    let objection = objection(&now.snapshot(), effect, files);
    if objection.is_none() {
        observation.look_again(now);
    }
    objection
}

/// Sorts what went wrong with a change: what had nothing to do with it is tried again.
fn of_change(error: ChangeError, task: Option<usize>) -> Outcome {
    let ChangeError { message, may_pass, barrier } = error;
    match may_pass {
        // It may have cost all the time and memory that one change may have: the next try comes later and later.
        true => Outcome::Fault { message, retry: Retry::Later },
        false => Outcome::Refused { task, barrier, message },
    }
}

/// Sorts what went wrong with a repository by who can mend it.
fn of_git(kind: &Kind, observation: &Observation, error: kardinal_git::Error) -> Outcome {
    match error {
        kardinal_git::Error::Change(error) => of_change(error, None),
        kardinal_git::Error::Overtaken(message) => Outcome::Overtaken { message },
        kardinal_git::Error::Problem { message, barrier } => blocked(kind, observation, barrier, message),
        kardinal_git::Error::NoCommit(message) => blocked(kind, observation, Barrier::Other, message),
        kardinal_git::Error::Fault { message, retry_after } => {
            Outcome::Fault { message, retry: after(retry_after) }
        }
        kardinal_git::Error::Limited { message, retry_after } => {
            Outcome::Fault { message, retry: Retry::Limited(signed(retry_after)) }
        }
    }
}

/// Credentials may have been renewed since they were read: the next try reads them again.
fn blocked(kind: &Kind, observation: &Observation, barrier: Barrier, message: String) -> Outcome {
    if let Ok(access) = access::of_step(&observation.key.0, &observation.step) {
        kind.context.credentials.forget(&access);
    }
    Outcome::Blocked { barrier, message }
}

async fn forge(kind: &Kind, observation: &Observation, effect: &ForgeEffect) -> Outcome {
    let context = &kind.context;
    let access = match access::of_step(&observation.key.0, &observation.step) {
        Ok(access) => access,
        Err(trouble) => return trouble.into(),
    };
    let forge = match context.forge(&access).await {
        Ok(forge) => forge,
        Err(trouble) => return trouble.into(),
    };
    match ask(forge.as_ref(), effect, context.clock.as_ref()).await {
        Ok(outcome) => outcome,
        Err(scm::Error::Problem { message, barrier }) => blocked(kind, observation, barrier, message),
        Err(scm::Error::Absent(message)) => Outcome::Absent { message },
        Err(scm::Error::Conflict { message, certain }) => Outcome::Conflict { message, certain },
        Err(scm::Error::Fault { message, retry_after }) => {
            Outcome::Fault { message, retry: after(retry_after) }
        }
        Err(scm::Error::Limited { message, retry_after }) => {
            Outcome::Fault { message, retry: Retry::Limited(signed(Some(retry_after))) }
        }
    }
}

fn after(asked: Option<Duration>) -> Retry {
    signed(asked).map_or(Retry::Soon, Retry::After)
}

fn signed(asked: Option<Duration>) -> Option<SignedDuration> {
    asked.and_then(|asked| asked.try_into().ok())
}

async fn ask(forge: &dyn Forge, effect: &ForgeEffect, clock: &dyn Clock) -> Result<Outcome, scm::Error> {
    match effect {
        ForgeEffect::OpenPullRequest(order) => whole(forge, forge.create(order).await?).await,
        ForgeEffect::ReadPullRequest { number } => Ok(Outcome::PullRequest(forge.get(*number).await?)),
        ForgeEffect::FindPullRequest { head, base, marker, since } => {
            found(forge, forge.find(head, base, marker, *since).await?).await
        }
        ForgeEffect::FindMerge { head, base, since } => {
            found(forge, forge.find_merge(head, base, *since).await?).await
        }
        ForgeEffect::UpdatePullRequest { number, title, body, labels } => {
            let (title, body, labels) = (Some(title.clone()), Some(body.clone()), Some(labels.clone()));
            done(forge.update(*number, &scm::Changes { title, body, labels }).await)
        }
        ForgeEffect::MergePullRequest { number, head_sha, base } => {
            whole(forge, forge.merge(*number, head_sha, base).await?).await
        }
        ForgeEffect::CommentPullRequest { number, comment } => done(forge.comment(*number, comment).await),
        ForgeEffect::ClosePullRequest { number, comment } => done(forge.close(*number, Some(comment)).await),
        ForgeEffect::SetCommitStatus { sha, context, state, description } => {
            let (context, description) = (context.clone(), description.clone());
            let status = scm::CommitStatus { context, state: *state, description, url: None };
            forge.set_status(sha, &status).await?;
            // The time after it counts: until then people may have seen what was shown before.
            Ok(Outcome::Shown { at: clock.now() })
        }
    }
}

fn done(answer: Result<(), scm::Error>) -> Result<Outcome, scm::Error> {
    answer.map(|()| Outcome::Done)
}

async fn found(forge: &dyn Forge, found: Option<PullRequest>) -> Result<Outcome, scm::Error> {
    match found {
        Some(found) => whole(forge, found).await,
        None => Ok(Outcome::NoPullRequest),
    }
}

/// Only a pull request that was read by itself tells who approved it, which is evidence once it is merged, and who closed
/// it.
async fn whole(forge: &dyn Forge, found: PullRequest) -> Result<Outcome, scm::Error> {
    Ok(Outcome::PullRequest(match found.state {
        PullRequestState::Merged | PullRequestState::Closed => forge.get(found.number).await?,
        PullRequestState::Open => found,
    }))
}

impl From<Trouble> for Outcome {
    fn from(trouble: Trouble) -> Outcome {
        match trouble {
            Trouble::Problem { message, barrier } => Outcome::Blocked { barrier, message },
            Trouble::Fault(message) => Outcome::Fault { message, retry: Retry::Soon },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_something_outside_kept_from_being_made_is_tried_again() {
        let fault = Outcome::Fault { message: "why".to_owned(), retry: Retry::Later };
        assert_eq!(of_change(ChangeError::fault("why"), Some(2)), fault);
        let refused = |barrier| Outcome::Refused { task: Some(2), barrier, message: "why".to_owned() };
        assert_eq!(of_change(ChangeError::problem("why"), Some(2)), refused(Barrier::Other));
        let host = ChangeError { barrier: Barrier::HostNotAllowed, ..ChangeError::problem("why") };
        assert_eq!(of_change(host, Some(2)), refused(Barrier::HostNotAllowed));
    }
}
