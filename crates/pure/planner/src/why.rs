//! Why something waits. The decision makes a [`Wait`]; status, Event, explanation, pull request and page render it.

pub use kardinal_api::{Fact, Subject, Wait, WaitOn, Who};

/// So many waits a status holds.
const LIMIT: usize = 256;

/// So many characters of a text a wait holds: much of it comes from outside.
const TEXT_LIMIT: usize = 1000;

/// As many as a status holds: the most important ones, and the last, which is often what the others hold up. Of long texts
/// the beginning stays.
pub fn in_room(mut waits: Vec<Wait>) -> Vec<Wait> {
    if waits.len() > LIMIT {
        waits.drain(LIMIT - 1..waits.len() - 1);
    }
    for wait in &mut waits {
        let texts = wait.values.iter_mut().map(|fact| &mut fact.value);
        [&mut wait.detail].into_iter().chain(&mut wait.basis).chain(texts).for_each(shorten);
    }
    waits
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_LIMIT) {
        text.truncate(end);
        text.push('…');
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_no_news_and_the_last_keeps_its_place() {
        let wait = |detail: &str| {
            let wait = Wait::new(WaitOn::Gate, "Closed", Subject::new("gate"), Who::Person);
            wait.detail(detail)
        };
        assert!(says_the_same(&[wait("hour = 9")], &[wait("hour = 10")]));
        assert!(!says_the_same(&[wait("hour = 9")], &[wait("day = 9")]));
        assert!(!says_the_same(&[wait("hour = 9")], &[]));
        let many: Vec<Wait> = (0..300).map(|number| wait(&number.to_string())).collect();
        let kept = in_room(many);
        assert_eq!((kept.len(), kept[254].detail.as_str(), kept[255].detail.as_str()), (256, "254", "299"));
    }

    #[test]
    fn of_a_long_text_the_beginning_is_kept() {
        let endless = "ä".repeat(60_000);
        let wait = Wait::new(WaitOn::Outside, "TryingAgain", Subject::new("outside"), Who::Outside);
        let wait = wait.detail(endless.as_str()).basis(endless.as_str()).value("said", endless.as_str());
        let kept = in_room(vec![wait.clone(), Wait { detail: "short".to_owned(), ..wait }]);
        let lengths = |wait: &Wait| {
            let texts = [wait.detail.as_str(), wait.basis.as_deref().unwrap(), wait.values[0].value.as_str()];
            texts.map(|text| text.chars().count())
        };
        assert_eq!(lengths(&kept[0]), [TEXT_LIMIT + 1; 3]);
        assert!(kept[0].detail.ends_with("ä…"));
        assert_eq!(kept[1].detail, "short");
    }
}
