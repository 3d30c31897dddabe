//! How the program fails: one line that says what, one that says what next, and a number for scripts.

use std::process::ExitCode;

/// What kind of failure it is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Failed,
    Usage,
    NotFound,
    Refused,
    NotReachable,
}

impl Kind {
    fn exit_code(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::NotFound => 3,
            Kind::Refused => 4,
            Kind::NotReachable => 5,
        }
    }
}

/// A failure whose kind and remedy are known.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), hint: None }
    }

    /// Says what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Sorts what a server, or the way to it, answered.
    pub(crate) fn of_server(action: &str, error: kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) => {
                let kind = match status.code {
                    404 => Kind::NotFound,
                    401 | 403 => Kind::Refused,
                    _ => Kind::Failed,
                };
                Failure::new(kind, format!("{action}: {}", status.message))
            }
            other => Failure::new(Kind::NotReachable, format!("{action}: {}", root_cause(&other)))
                .hint("start a server with `kardinal up`, or name one with `--kubeconfig`"),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The innermost cause: the client library repeats causes on the way out.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Prints the failure and returns its exit code.
pub(crate) fn tell(error: &anyhow::Error) -> ExitCode {
    let known = error.downcast_ref::<Failure>();
    crate::output::error(&format!("{error:#}"), known.and_then(|failure| failure.hint.as_deref()));
    ExitCode::from(known.map_or(Kind::Failed, |failure| failure.kind).exit_code())
}
