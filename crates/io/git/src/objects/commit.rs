//! The bytes of a commit.

use gix::{ObjectId, objs};

use super::NewObject;
use crate::{Author, Order, error::Failure};

/// Makes the commit object of an order.
pub(crate) fn commit(order: &Order, tree: ObjectId, parent: ObjectId) -> Result<NewObject, Failure> {
    let who = signature(&order.author);
    let message = message(&order.message, &order.identity);
    let text = format!("tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{message}");
    NewObject::new(objs::Kind::Commit, text.into_bytes())
}

fn signature(author: &Author) -> String {
    let seconds = author.time.as_second().max(0);
    format!("{} <{}> {seconds} +0000", clean(&author.name), clean(&author.email))
}

/// Names as git takes them: no brackets, no control characters, no dots and spaces around.
fn clean(name: &str) -> String {
    let kept: String = name.chars().filter(|c| !c.is_control() && *c != '<' && *c != '>').collect();
    let kept = kept.trim_matches(|c: char| c.is_whitespace() || ".,:;\"'".contains(c));
    if kept.is_empty() { "kardinal".to_owned() } else { kept.to_owned() }
}

/// The message with the identity as a trailer.
fn message(message: &str, identity: &str) -> String {
    let body = message.replace('\0', "").replace("\r\n", "\n");
    let body = body.trim_end();
    let identity = identity.trim();
    if identity.is_empty() || body.lines().any(|line| line.trim_end() == identity) {
        return format!("{body}\n");
    }
    let last = body.rsplit("\n\n").next().unwrap_or_default();
    let trailers = last.len() < body.len() && last.lines().all(is_trailer);
    let gap = if trailers { "\n" } else { "\n\n" };
    format!("{body}{gap}{identity}\n")
}

fn is_trailer(line: &str) -> bool {
    line.split_once(": ")
        .is_some_and(|(key, _)| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_a_trailer_once() {
        assert_eq!(message("Promote", "Step: 1"), "Promote\n\nStep: 1\n");
        assert_eq!(message("Promote\n\nStep: 1\n", "Step: 1"), "Promote\n\nStep: 1\n");
        assert_eq!(message("Promote\n\nA-B: x\n", "Step: 1"), "Promote\n\nA-B: x\nStep: 1\n");
        assert_eq!(message("a: b", "Step: 1"), "a: b\n\nStep: 1\n");
        assert_eq!(message("Promote\n\nStep: 12", "Step: 1"), "Promote\n\nStep: 12\nStep: 1\n");
    }

    #[test]
    fn names_cannot_forge_headers() {
        let author =
            Author { name: "a <x>\nparent 0".into(), email: "<>".into(), time: jiff::Timestamp::UNIX_EPOCH };
        assert_eq!(signature(&author), "a xparent 0 <kardinal> 0 +0000");
    }
}
