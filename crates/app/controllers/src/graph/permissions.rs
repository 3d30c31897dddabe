//! What the ServiceAccount of a Graph may read, as the API server said lately.
//!
//! Objects come from watches that belong to the controller and not to the account, so the API server is asked on the
//! account's behalf before a Graph sees any of them. An answer holds for a bounded time.

use std::collections::BTreeMap;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use kardinal_cluster::{Answer, Writer};
use kardinal_graph::{Permission, Permit};
use serde_json::Value;

/// How long an answer holds.
const HOLDS: SignedDuration = SignedDuration::from_secs(60);
/// How long to wait after a question that nobody could answer.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// The answers about one account.
#[derive(Default)]
pub(super) struct Permissions {
    /// Namespace and name of the account.
    account: (String, String),
    answers: BTreeMap<Permit, (Permission, Timestamp)>,
}

impl Permissions {
    /// Asks what is not known, or not known any more. Answers that nobody wants are forgotten. Returns whether anything
    /// differs from what was known.
    pub(super) async fn refresh(
        &mut self,
        writer: &Writer,
        account: (&str, &str),
        wanted: Vec<Permit>,
        now: Timestamp,
    ) -> bool {
        let own = (account.0.to_owned(), account.1.to_owned());
        if self.account != own {
            *self = Permissions { account: own, answers: BTreeMap::new() };
        }
        let mut changed = false;
        let before = std::mem::take(&mut self.answers);
        let mut due = Vec::new();
        for permit in wanted {
            match before.get(&permit).filter(|(_, until)| *until > now) {
                Some(answer) => drop(self.answers.insert(permit, answer.clone())),
                None => due.push(permit),
            }
        }
        let writer = writer.acting_as(account.0, account.1);
        let asking = due.iter().map(|permit| ask(writer.as_ref(), account.1, permit));
        for (permit, answer) in due.iter().zip(join_all(asking).await) {
            changed |= before.get(permit).is_none_or(|(known, _)| *known != answer);
            let holds = if answer == Permission::Unknown { ASK_AGAIN } else { HOLDS };
            self.answers.insert(permit.clone(), (answer, now + holds));
        }
        changed
    }

    /// What is known about this account.
    pub(super) fn known(&self, account: (&str, &str), now: Timestamp) -> BTreeMap<Permit, Permission> {
        if (self.account.0.as_str(), self.account.1.as_str()) != account {
            return BTreeMap::new();
        }
        let fresh = self.answers.iter().filter(|(_, (_, until))| *until > now);
        fresh.map(|(permit, (answer, _))| (permit.clone(), answer.clone())).collect()
    }

    /// Whether somebody has asked about it.
    pub(super) fn covers(&self, permit: &Permit) -> bool {
        self.answers.contains_key(permit)
    }

    /// When the first of the answers has to be asked for again.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        self.answers.values().map(|(_, until)| *until).min()
    }
}

async fn ask(writer: Option<&Writer>, account: &str, permit: &Permit) -> Permission {
    let Some(writer) = writer else {
        return Permission::Denied(format!("`{account}` cannot be the name of a ServiceAccount"));
    };
    match writer.may_read(permit).await {
        Answer::Done(review) if review.pointer("/status/allowed") == Some(&Value::Bool(true)) => {
            Permission::Granted
        }
        Answer::Done(_) => {
            let verb = if permit.name.is_some() { "get" } else { "list" };
            Permission::Denied(format!(
                "the ServiceAccount `{account}` may not {verb} {permit}: give it a role for that"
            ))
        }
        Answer::Refused(message) => Permission::Denied(format!(
            "the controller cannot act as the ServiceAccount `{account}`: {message}"
        )),
        Answer::Gone(message) | Answer::Conflict(message) | Answer::Fault(message) => {
            tracing::warn!(account, %permit, error = %message, "what a ServiceAccount may read is not known");
            Permission::Unknown
        }
    }
}
