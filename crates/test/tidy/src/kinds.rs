//! The folders of the kinds in the crates that decide about them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files in which every kind tells its part of the sentence.
pub const WORDS: [&str; 3] = ["check.rs", "plan.rs", "report.rs"];

/// The name of a kind as a file has it: `policy_gate` for `PolicyGate`.
pub fn file_name(kind: &str) -> String {
    let mut name = String::with_capacity(kind.len());
    for (index, character) in kind.char_indices() {
        if character.is_uppercase() && index > 0 {
            name.push('_');
        }
        name.extend(character.to_lowercase());
    }
    name
}

/// The folders of kinds among the sources of a crate, each with the words that it lacks. A folder is a kind's when it has
/// the name of one or has one of the words.
pub fn folders(sources: &[PathBuf], kinds: &[String]) -> BTreeMap<PathBuf, Vec<&'static str>> {
    let top = sources.iter().filter(|file| file.components().count() == 1);
    let named = top
        .map(|file| file.with_extension(""))
        .filter(|name| kinds.iter().any(|kind| name == Path::new(kind)));
    let says = |file: &&PathBuf| WORDS.iter().any(|word| file.ends_with(word));
    let speaking = sources.iter().filter(says).filter_map(|file| file.parent()).map(Path::to_owned);
    let all: BTreeSet<PathBuf> = named.chain(speaking).collect();
    let lacking =
        |folder: &Path| WORDS.into_iter().filter(|word| !sources.contains(&folder.join(word))).collect();
    all.into_iter().map(|folder| (folder.clone(), lacking(&folder))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_files_are() {
        assert_eq!(file_name("Bundle"), "bundle");
        assert_eq!(file_name("PolicyGate"), "policy_gate");
    }

    #[test]
    fn a_folder_without_a_word_is_found() {
        let kinds = ["bundle".to_owned(), "pipeline".to_owned(), "fleet".to_owned()];
        let sources = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<PathBuf>>();
        let files = sources(&[
            "lib.rs",
            "explain.rs",
            "explain/plan_text.rs",
            "bundle.rs",
            "bundle/check.rs",
            "bundle/plan.rs",
            "bundle/report.rs",
            "pipeline.rs",
            "group/thing/plan.rs",
        ]);
        let found = folders(&files, &kinds);
        let expected = [
            ("bundle", Vec::new()),
            ("group/thing", vec!["check.rs", "report.rs"]),
            ("pipeline", WORDS.to_vec()),
        ];
        assert_eq!(found, expected.map(|(folder, lacks)| (PathBuf::from(folder), lacks)).into());
    }
}
