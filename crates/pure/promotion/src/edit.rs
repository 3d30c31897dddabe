//! Which files the edits of a promotion may touch: those in the directory of the environment, and no others. Whoever
//! carries the edits out only reads and writes.

use std::path::{Component, Path};

use kardinal_manifest::{kustomize, replace};

use crate::promotion_step::Edit;

impl Edit {
    /// The index of the task that asks for it.
    pub fn task(&self) -> usize {
        match self {
            Edit::KustomizeImages { task, .. }
            | Edit::HelmImages { task, .. }
            | Edit::ReplaceText { task, .. }
            | Edit::YamlSet { task, .. }
            | Edit::ConfigMerge { task, .. }
            | Edit::KustomizeBuild { task, .. } => *task,
        }
    }
}

/// The directory of an environment, which no edit may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory(String);

impl Directory {
    /// The directory at a path from the root of the repository; `.` is the root.
    pub fn new(path: &str) -> Directory {
        Directory(path.trim_matches('/').to_owned())
    }

    /// The path as it was given.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// The path from the root of the repository, empty for the root itself.
    pub fn folder(&self) -> &str {
        if self.0 == "." { "" } else { &self.0 }
    }

    /// The path from the root of the repository of a file that is named from the directory on.
    pub fn place(&self, file: &str) -> Result<String, String> {
        let leaves = Path::new(file).components().any(|part| !matches!(part, Component::Normal(_)));
        if file.is_empty() || leaves {
            return Err(format!("`{file}` is not a path below the environment's directory `{}`", self.0));
        }
        Ok(match self.folder() {
            "" => file.to_owned(),
            folder => format!("{folder}/{file}"),
        })
    }

    /// Whether a file is in the directory or below it.
    pub fn contains(&self, place: &str) -> bool {
        match self.folder() {
            "" => true,
            folder => place.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')),
        }
    }

    /// Where the kustomization may be. The first one that is there counts.
    pub fn kustomizations(&self) -> Result<Vec<String>, String> {
        kustomize::FILES.into_iter().map(|file| self.place(file)).collect()
    }

    /// What is said when there is no kustomization.
    pub fn no_kustomization(&self) -> String {
        format!(
            "`{}` has no kustomization.yaml: check the environment's `path`, or choose another `update.strategy`",
            self.0
        )
    }

    /// Where a file of a configuration repository goes; `None` for one that is not below `source`, which is not taken
    /// over. All of the repository is taken over when no source is named.
    pub fn place_of_source(&self, file: &str, source: Option<&str>) -> Result<Option<String>, String> {
        let file = match source.map(|source| source.trim_matches('/')) {
            None | Some("") => Some(file),
            Some(source) => file.strip_prefix(source).and_then(|rest| rest.strip_prefix('/')),
        };
        file.map(|file| self.place(file)).transpose()
    }
}

/// Whether a file is searched by an edit that names no file.
pub fn is_yaml(place: &str) -> bool {
    place.ends_with(".yaml") || place.ends_with(".yml")
}

/// The text of a file that an edit names.
pub fn text(place: &str, content: Option<Vec<u8>>) -> Result<String, String> {
    let content = content
        .ok_or_else(|| format!("`{place}` is not in the repository: check the environment's `path`"))?;
    String::from_utf8(content).map_err(|_| format!("`{place}` is not UTF-8 text"))
}

/// A replacement in all YAML files of a directory, of which at least one must match.
#[derive(Debug)]
pub struct Replacement<'a> {
    pattern: &'a str,
    with: &'a str,
    /// Why the last file was left as it is; `None` as soon as one matches.
    objection: Option<String>,
}

impl<'a> Replacement<'a> {
    /// Replaces what matches the pattern.
    pub fn new(directory: &Directory, pattern: &'a str, with: &'a str) -> Replacement<'a> {
        let objection = Some(format!("`{}` has no YAML file", directory.path()));
        Replacement { pattern, with, objection }
    }

    /// What becomes of one file; `None` when it stays as it is. What is no text does not matter.
    pub fn apply(&mut self, place: &str, content: Vec<u8>) -> Option<String> {
        let text = String::from_utf8(content).ok()?;
        match replace::replace(place, &text, self.pattern, self.with) {
            Ok(after) => {
                self.objection = None;
                Some(after)
            }
            Err(error) => {
                if let Some(objection) = &mut self.objection {
                    *objection = error.to_string();
                }
                None
            }
        }
    }

    /// Whether any file matched, after all of them.
    pub fn finish(self) -> Result<(), String> {
        self.objection.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_edit_leaves_the_directory() {
        for (directory, file, place) in [
            ("environments/prod", "values.yaml", Some("environments/prod/values.yaml")),
            ("/environments/prod/", "a/values.yaml", Some("environments/prod/a/values.yaml")),
            (".", "values.yaml", Some("values.yaml")),
            ("", "values.yaml", Some("values.yaml")),
            ("/", "values.yaml", Some("values.yaml")),
            ("environments/prod", "", None),
            ("environments/prod", ".", None),
            ("environments/prod", "./values.yaml", None),
            ("environments/prod", "../dev/values.yaml", None),
            ("environments/prod", "a/../../dev/values.yaml", None),
            ("environments/prod", "a/..", None),
            ("environments/prod", "/etc/passwd", None),
            (".", "../x", None),
            (".", "/x", None),
        ] {
            let answer = Directory::new(directory).place(file);
            assert_eq!(answer.as_deref().ok(), place, "{directory} {file}");
            if let Err(message) = answer {
                assert!(message.contains(&format!("`{file}`")), "{message}");
            }
        }
    }

    #[test]
    fn what_is_in_the_directory_is_told_by_whole_names() {
        for (directory, place, inside) in [
            ("environments/prod", "environments/prod/a.yaml", true),
            ("environments/prod", "environments/prod/a/b.yaml", true),
            ("environments/prod", "environments/prod", false),
            ("environments/prod", "environments/prod-eu/a.yaml", false),
            ("environments/prod", "environments/a.yaml", false),
            (".", "a.yaml", true),
            ("", "environments/prod/a.yaml", true),
        ] {
            assert_eq!(Directory::new(directory).contains(place), inside, "{directory} {place}");
        }
        for (place, yaml) in [("a.yaml", true), ("a/b.yml", true), ("a.yaml.bak", false), ("yaml", false)] {
            assert_eq!(is_yaml(place), yaml, "{place}");
        }
    }

    #[test]
    fn the_kustomization_is_in_the_directory_itself() {
        let names = |prefix: &str| kustomize::FILES.map(|file| format!("{prefix}{file}")).to_vec();
        for (directory, prefix) in [("env/prod", "env/prod/"), (".", ""), ("", "")] {
            assert_eq!(Directory::new(directory).kustomizations(), Ok(names(prefix)), "{directory}");
        }
        assert!(Directory::new("env/prod").no_kustomization().contains("`env/prod`"));
    }

    #[test]
    fn a_configuration_is_taken_from_its_path_and_never_goes_elsewhere() {
        for (source, file, place) in [
            (None, "app.yaml", Ok(Some("env/app.yaml"))),
            (Some(""), "app.yaml", Ok(Some("env/app.yaml"))),
            (Some("/"), "a/app.yaml", Ok(Some("env/a/app.yaml"))),
            (Some("config"), "config/app.yaml", Ok(Some("env/app.yaml"))),
            (Some("/config/"), "config/a/app.yaml", Ok(Some("env/a/app.yaml"))),
            (Some("config"), "configuration/app.yaml", Ok(None)),
            (Some("config"), "app.yaml", Ok(None)),
            (Some("config"), "config/../app.yaml", Err(())),
            (Some("config"), "config/", Err(())),
            (None, "../app.yaml", Err(())),
        ] {
            let answer = Directory::new("env").place_of_source(file, source);
            assert_eq!(answer.as_ref().map(Option::as_deref).map_err(|_| ()), place, "{source:?} {file}");
        }
    }

    #[test]
    fn a_named_file_must_be_there_and_be_text() {
        assert_eq!(text("a", Some(b"b".to_vec())), Ok("b".to_owned()));
        for (content, why) in [(None, "not in the repository"), (Some(vec![0xff]), "not UTF-8")] {
            let message = text("a", content).unwrap_err();
            assert!(message.contains("`a`") && message.contains(why), "{message}");
        }
    }

    #[test]
    fn a_replacement_must_match_somewhere() {
        type Case<'a> = (&'a [(&'a str, &'a [u8])], &'a [Option<&'a str>], Result<(), &'a str>);
        let cases: [Case<'_>; 5] = [
            (&[], &[], Err("`env` has no YAML file")),
            (&[("env/a.yaml", b"x: 1\n")], &[None], Err("env/a.yaml")),
            (&[("env/a.yaml", b"tag: v1\n"), ("env/b.yaml", b"x: 1\n")], &[Some("tag: v2\n"), None], Ok(())),
            (&[("env/a.yaml", b"x: 1\n"), ("env/b.yaml", b"tag: v1\n")], &[None, Some("tag: v2\n")], Ok(())),
            (&[("env/a.yaml", b"tag: \xff\n")], &[None], Err("`env` has no YAML file")),
        ];
        for (files, wanted, end) in cases {
            let mut replacement = Replacement::new(&Directory::new("env"), "tag: v\\d+", "tag: v2");
            let after: Vec<Option<String>> =
                files.iter().map(|(place, content)| replacement.apply(place, content.to_vec())).collect();
            assert_eq!(after.iter().map(Option::as_deref).collect::<Vec<_>>(), wanted, "{files:?}");
            match (replacement.finish(), end) {
                (Ok(()), Ok(())) => {}
                (Err(message), Err(part)) => assert!(message.contains(part), "{message}"),
                (other, _) => panic!("{files:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn every_edit_names_its_task() {
        let file = || "a".to_owned();
        for (edit, task) in [
            (Edit::KustomizeImages { task: 1, images: Vec::new() }, 1),
            (Edit::KustomizeBuild { task: 4, output: file() }, 4),
            (Edit::ReplaceText { task: 2, file: None, pattern: file(), with: file() }, 2),
        ] {
            assert_eq!(edit.task(), task);
        }
    }
}
