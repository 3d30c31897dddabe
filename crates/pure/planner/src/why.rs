//! Why something waits. The decision makes a [`Wait`]; status, Event, explanation, pull request and page render it.

pub use kardinal_api::{Fact, Subject, Wait, WaitOn, Who};

/// What was waited for, in one line: the most important first, `and more` after the first few.
pub fn one_line(waits: &[Wait]) -> String {
    const NAMED: usize = 5;
    let mut parts: Vec<&str> = waits.iter().take(NAMED).map(|wait| wait.detail.as_str()).collect();
    if waits.len() > NAMED {
        parts.push("and more");
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_first_few() {
        let wait = |number: usize| {
            let subject = Subject::new(format!("env-{number}"));
            let wait = Wait::new(WaitOn::Upstream, "NotVerified", subject, Who::Kardinal);
            wait.detail(format!("waiting for `env-{number}`"))
        };
        assert_eq!(one_line(&[]), "");
        let two: Vec<Wait> = (1..=2).map(wait).collect();
        assert_eq!(one_line(&two), "waiting for `env-1`; waiting for `env-2`");
        let many: Vec<Wait> = (1..=7).map(wait).collect();
        assert!(one_line(&many).ends_with("waiting for `env-5`; and more"));
    }
}
