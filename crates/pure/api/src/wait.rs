//! What an object waits for, as data: every status, every explanation and every page says it with the same words.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that is waited for. Whoever decides to wait makes it; all others only render it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// What kind of thing.
    pub on: WaitOn,
    /// How it stands, in one word for programs, such as `Closed` of a gate.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The thing itself.
    pub subject: Subject,
    /// Whose turn it is.
    pub who: Who,
    /// How it stands, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The values that the answer was made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Fact>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub until: Option<Timestamp>,
    /// When it is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub deadline: Option<Timestamp>,
    /// What `until` is computed from, or what is needed instead of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
}

impl Wait {
    /// Something that waits for this, without a time.
    pub fn new(on: WaitOn, reason: &str, subject: Subject, who: Who) -> Wait {
        Wait {
            on,
            reason: reason.to_owned(),
            subject,
            who,
            detail: String::new(),
            values: Vec::new(),
            until: None,
            deadline: None,
            basis: None,
        }
    }

    /// The same with words about how it stands.
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Wait {
        Wait { detail: detail.into(), ..self }
    }

    /// The same with what a time is computed from, or what is needed instead of time.
    #[must_use]
    pub fn basis(self, basis: impl Into<String>) -> Wait {
        Wait { basis: Some(basis.into()), ..self }
    }

    /// The same with one more value.
    #[must_use]
    pub fn value(mut self, name: &str, value: impl Into<String>) -> Wait {
        self.values.push(Fact { name: name.to_owned(), value: value.into() });
        self
    }

    /// A value by its name.
    pub fn value_of(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
    }
}

/// What kind of thing is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WaitOn {
    /// Somebody paused the Pipeline.
    Pause,
    /// The agent that carries out the step is away.
    Agent,
    /// Something is not permitted until somebody changes it, such as credentials.
    Action,
    /// Somebody outside who does not answer, such as a Git server.
    Outside,
    /// A closed gate.
    Gate,
    /// A pull request that nobody has merged yet.
    PullRequest,
    /// An environment that is not healthy yet.
    Health,
    /// An environment before this one.
    Upstream,
    /// Another Bundle, which has the environment to itself.
    Bundle,
    /// kardinal itself.
    Controller,
}

/// Whose turn it is: who, or what, ends the waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// Nobody: it ends when the time has come.
    Time,
    /// A person, who has to do something.
    Person,
    /// Something outside, such as a cluster that rolls out or a server that does not answer.
    Outside,
    /// kardinal, which goes on by itself.
    Kardinal,
}

/// The thing that is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Its kind, when it is an object of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name: a gate, an environment, `PR #3`.
    pub name: String,
    /// Where people can look at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

impl Subject {
    /// Something without a page of its own.
    pub fn new(name: impl Into<String>) -> Subject {
        Subject { name: name.into(), ..Subject::default() }
    }

    /// An object of the API server.
    pub fn object(kind: &str, name: impl Into<String>) -> Subject {
        Subject { kind: Some(kind.to_owned()), name: name.into(), url: None }
    }
}

/// A value by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    /// Such as `bundle.upstreamSoakMinutes`.
    pub name: String,
    /// The value as text.
    pub value: String,
}
