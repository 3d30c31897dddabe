//! Why something waits. The decision makes a [`Wait`]; status, Event, explanation, pull request and page render it.

pub use kardinal_api::{Fact, Subject, Wait, WaitOn, Who};

/// So many waits a status holds.
const LIMIT: usize = 256;

/// As many as a status holds: the most important ones, and the last, which is often what the others hold up.
pub fn in_room(mut waits: Vec<Wait>) -> Vec<Wait> {
    if waits.len() > LIMIT {
        waits.drain(LIMIT - 1..waits.len() - 1);
    }
    waits
}

/// A text without its numbers: what is left when only those differ is no news.
pub fn without_numbers(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    for character in text.chars() {
        let character = if character.is_ascii_digit() { '#' } else { character };
        if character != '#' || !left.ends_with('#') {
            left.push(character);
        }
    }
    left
}

/// Whether waits differ in nothing but the numbers that they tell.
pub fn says_the_same(one: &[Wait], other: &[Wait]) -> bool {
    let outline = |wait: &Wait| Wait { detail: without_numbers(&wait.detail), ..wait.clone() };
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| outline(one) == outline(other))
}

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
