//! What one process remembers of a step, and what it learns from what it does.

use kardinal_api::kardinal::PromotionStep;
use kardinal_vcs::{CommitState, PullRequest};

use super::{BLOCKED_ATTEMPTS_MAX, Effect, ForgeEffect, GitEffect, Outcome, Shown, in_time};

/// What one process remembers of a step between passes. It saves work, and it tells what this process has itself seen and
/// shown, which nobody can write over: a pass with an empty memory comes to the same decisions after reading the pull
/// request again, but has to believe the status of what the check showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The pull request as it was read last.
    pub pull_request: Option<PullRequest>,
    /// Whether one was looked for in vain.
    pub has_no_pull_request: bool,
    /// Whether there was one, as far as this process has heard.
    pub heard_of_pull_request: bool,
    /// How often this process has heard that something happened to it.
    pub hearings: u64,
    /// The commit whose check was set to pending last.
    pub withdrawn: Option<String>,
    /// What its check shows.
    pub shown: Option<Shown>,
    /// The commit on which the forge was asked last to show something, whatever came of it.
    pub asked: Option<String>,
    /// How often in a row the world has failed.
    pub faults: u32,
}

impl Memory {
    /// Whether the forge was asked to show something on the newest commit of the pull request.
    pub fn has_shown(&self) -> bool {
        self.pull_request.as_ref().is_none_or(|found| self.asked.as_ref() == Some(&found.head))
    }

    /// What is known of the pull request is out of date.
    #[must_use]
    pub fn read_again(self) -> Memory {
        Memory { pull_request: None, ..self }
    }

    /// Something has happened to the pull request.
    #[must_use]
    pub fn hear_of_pull_request(self) -> Memory {
        let hearings = self.hearings.wrapping_add(1);
        Memory { has_no_pull_request: false, heard_of_pull_request: true, hearings, ..self.read_again() }
    }

    /// Another process has carried out the step meanwhile.
    #[must_use]
    pub fn change_hands(self) -> Memory {
        Memory { shown: None, withdrawn: None, asked: None, ..self.read_again() }
    }

    /// What an outcome means after those before it, and what is remembered with it. `before` is what was remembered when the
    /// effect was decided: what was read of a pull request may be older than what was heard of it since.
    #[must_use]
    pub fn interpret(
        self,
        before: &Memory,
        step: &PromotionStep,
        effect: &Effect,
        outcome: Outcome,
    ) -> (Memory, Outcome) {
        let is_heard = self.hearings != before.hearings;
        // It may be the pull request that is gone: it is read again.
        let memory = if matches!(outcome, Outcome::Absent { .. }) { self.read_again() } else { self };
        let outcome = in_time(step, effect, outcome, memory.faults.saturating_add(1));
        let memory = memory.learn(effect, &outcome);
        let memory = match is_heard {
            true => Memory { has_no_pull_request: false, ..memory.read_again() },
            false => memory,
        };
        (memory, outcome)
    }

    /// Keeps what an effect has brought to light.
    fn learn(mut self, effect: &Effect, outcome: &Outcome) -> Memory {
        self.faults = match outcome {
            Outcome::Fault { .. }
            | Outcome::Absent { .. }
            | Outcome::Blocked { .. }
            | Outcome::Conflict { .. }
            | Outcome::Refused { .. } => self.faults.saturating_add(1),
            Outcome::Done
            | Outcome::Shown { .. }
            | Outcome::Committed { .. }
            | Outcome::PullRequest(_)
            | Outcome::NoPullRequest
            | Outcome::TaskAnswer { .. }
            | Outcome::Held { .. }
            | Outcome::Overtaken { .. } => 0,
        };
        if let Effect::Forge(ForgeEffect::SetCommitStatus { sha, state, .. }) = effect {
            self.learn_what_is_shown(sha, *state, outcome);
        }
        self.learn_of_pull_request(effect, outcome);
        self
    }

    fn learn_what_is_shown(&mut self, sha: &str, state: CommitState, outcome: &Outcome) {
        if let Outcome::Shown { at } = outcome {
            let before = self.shown.take().filter(|shown| shown.sha == sha && shown.state == state);
            let since = before.map_or(*at, |shown| shown.since);
            self.shown = Some(Shown { sha: sha.to_owned(), state, since });
        }
        if is_answer(outcome, self.faults) {
            self.asked = Some(sha.to_owned());
        }
        // Credentials are the team's: that they do not work now is no reason to give up.
        if matches!(outcome, Outcome::Done | Outcome::Shown { .. } | Outcome::Refused { .. }) {
            self.withdrawn = (state == CommitState::Pending).then(|| sha.to_owned());
        }
    }

    fn learn_of_pull_request(&mut self, effect: &Effect, outcome: &Outcome) {
        match outcome {
            // It may be another step's.
            Outcome::PullRequest(_) if matches!(effect, Effect::Forge(ForgeEffect::FindMerge { .. })) => {}
            Outcome::PullRequest(found) => {
                self.pull_request = Some(found.clone());
                self.has_no_pull_request = false;
                self.heard_of_pull_request = true;
            }
            Outcome::NoPullRequest
                if matches!(effect, Effect::Forge(ForgeEffect::FindPullRequest { .. })) =>
            {
                self.has_no_pull_request = true;
            }
            // A definite no changes nothing: reading again would only take back what was just written down.
            Outcome::Blocked { .. } | Outcome::Conflict { certain: true, .. } => {}
            Outcome::Done
            | Outcome::Shown { .. }
            | Outcome::Committed { .. }
            | Outcome::NoPullRequest
            | Outcome::Absent { .. }
            | Outcome::TaskAnswer { .. }
            | Outcome::Held { .. }
            | Outcome::Overtaken { .. }
            | Outcome::Conflict { certain: false, .. }
            | Outcome::Refused { .. }
            | Outcome::Fault { .. } => {
                if outdates_pull_request(effect) {
                    self.pull_request = None;
                }
            }
        }
    }
}

/// Whether the pull request may be another one than was read, once an effect was tried.
fn outdates_pull_request(effect: &Effect) -> bool {
    match effect {
        Effect::Forge(ForgeEffect::ClosePullRequest { .. } | ForgeEffect::MergePullRequest { .. }) => true,
        // Its branch has moved, or the forge had not compared it when it was read.
        Effect::Git(GitEffect::Commit(order)) => order.replaces.is_some(),
        Effect::Forge(
            ForgeEffect::OpenPullRequest(_)
            | ForgeEffect::ReadPullRequest { .. }
            | ForgeEffect::UpdatePullRequest { .. }
            | ForgeEffect::CommentPullRequest { .. }
            | ForgeEffect::FindPullRequest { .. }
            | ForgeEffect::FindMerge { .. }
            | ForgeEffect::SetCommitStatus { .. },
        )
        | Effect::Git(GitEffect::DeleteBranch { .. })
        | Effect::Step(_)
        | Effect::CallTask(_) => false,
    }
}

/// Whether the forge is not asked for the same again: it has done it, or refuses to.
fn is_answer(outcome: &Outcome, faults: u32) -> bool {
    match outcome {
        Outcome::Done | Outcome::Shown { .. } | Outcome::Refused { .. } => true,
        Outcome::Blocked { .. } => faults >= BLOCKED_ATTEMPTS_MAX,
        Outcome::Committed { .. }
        | Outcome::PullRequest(_)
        | Outcome::NoPullRequest
        | Outcome::Absent { .. }
        | Outcome::TaskAnswer { .. }
        | Outcome::Held { .. }
        | Outcome::Overtaken { .. }
        | Outcome::Conflict { .. }
        | Outcome::Fault { .. } => false,
    }
}
