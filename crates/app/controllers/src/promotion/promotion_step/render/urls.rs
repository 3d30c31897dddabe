//! What a kustomization names, judged before the program sees it. Proxies keep it from other machines, but it asks none for
//! this one. So it is this machine that must not be named in any way that the program understands.
//!
//! Whatever YAML can write differently is read as YAML first; what cannot be read may hold nothing that could be a URL.

use std::path::{Component, Path, PathBuf};

use kardinal_git::ChangeError;
use kardinal_manifest::kustomize;
use kardinal_reach::Policy;
use serde_json::Value;

/// Fields of a kustomization that name files with settings of the program, or hold such settings as text.
const PLUGINS: [&str; 3] = ["generators", "transformers", "validators"];
/// The field whose entries may be `name=path`.
const FILES: &str = "files";
/// The field whose entries are taken as they are.
const LITERALS: &str = "literals";

/// Judges all kustomizations of a folder.
pub(super) fn check(work: &Path, reach: &Policy) -> Result<(), ChangeError> {
    let unread = |error: std::io::Error| ChangeError::fault(format!("the files cannot be read: {error}"));
    let judge = Judge { work, reach };
    for file in kustomizations(work).map_err(unread)? {
        let folder = file.parent().unwrap_or(work);
        for kustomization in judge.file(&file)? {
            let fields = kustomization.as_object().into_iter().flatten();
            for (_, named) in fields.filter(|(field, _)| PLUGINS.contains(&folded(field).as_str())) {
                let entries = named.as_array().map_or(std::slice::from_ref(named), Vec::as_slice);
                for entry in entries.iter().filter_map(Value::as_str) {
                    judge.plugin(folder, entry)?;
                }
            }
        }
    }
    Ok(())
}

fn kustomizations(work: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![work.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let named = kustomize::FILES.iter().any(|file| entry.file_name() == *file);
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false if named => found.push(entry.path()),
                false => {}
            }
        }
    }
    Ok(found)
}

struct Judge<'a> {
    work: &'a Path,
    reach: &'a Policy,
}

impl Judge<'_> {
    /// Judges a file and returns what it says.
    fn file(&self, file: &Path) -> Result<Vec<Value>, ChangeError> {
        let shown = file.strip_prefix(self.work).unwrap_or(file).display().to_string();
        let bytes = std::fs::read(file)
            .map_err(|error| ChangeError::fault(format!("`{shown}` cannot be read: {error}")))?;
        let text =
            String::from_utf8(bytes).map_err(|_| ChangeError::problem(format!("`{shown}` is not UTF-8")))?;
        self.text(&shown, &text)
    }

    fn text(&self, shown: &str, text: &str) -> Result<Vec<Value>, ChangeError> {
        let hides = hides(text);
        let documents = serde_saphyr::from_multiple::<Value>(text).ok().filter(|_| !hides);
        let Some(documents) = documents else {
            // Others may read it.
            let may_name = hides || text.contains('\\') || text.to_ascii_lowercase().contains("http");
            return match may_name {
                true => Err(ChangeError::problem(format!(
                    "`{shown}` cannot be read, so nobody knows what `kustomize` would fetch: write it as plain YAML"
                ))),
                false => Ok(Vec::new()),
            };
        };
        documents.iter().try_for_each(|document| self.value("", document))?;
        Ok(documents)
    }

    /// Settings of the program: in a file, or the text itself. What a folder makes of them cannot be known before.
    fn plugin(&self, folder: &Path, entry: &str) -> Result<(), ChangeError> {
        let path = folder.join(entry);
        let is_inside = !Path::new(entry).components().any(|part| matches!(part, Component::RootDir));
        match is_inside {
            true if path.is_dir() => Err(ChangeError::problem(format!(
                "`{entry}` is a folder: on a cluster `generators`, `transformers` and `validators` name files"
            ))),
            true if path.is_file() => self.file(&path).map(drop),
            _ => self.text("the settings of a plugin", entry).map(drop),
        }
    }

    fn value(&self, field: &str, value: &Value) -> Result<(), ChangeError> {
        match value {
            Value::String(text) => self.place(field, text),
            Value::Array(items) => items.iter().try_for_each(|item| self.value(field, item)),
            Value::Object(fields) => fields
                .iter()
                .filter(|(name, _)| *name != LITERALS)
                .try_for_each(|(name, value)| self.value(name, value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn place(&self, field: &str, text: &str) -> Result<(), ChangeError> {
        let after_name = text.split_once('=').filter(|_| folded(field) == FILES).map(|(_, path)| path);
        for place in [Some(text), after_name].into_iter().flatten() {
            if let Some((host, port)) = authority(place.trim().trim_start_matches("git::")) {
                self.reach.check_host(&host, port)?;
            }
        }
        Ok(())
    }
}

/// Whether a text may be other bytes than it shows.
fn hides(text: &str) -> bool {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '[' | '{' | ','));
    let mut tags = words.filter(|word| word.starts_with('!'));
    text.contains("%TAG") || tags.any(|tag| tag.contains('%') || tag.contains("binary"))
}

/// Names of fields are the same to the program whatever their case is, also where letters are not ASCII.
fn folded(field: &str) -> String {
    field.to_uppercase().to_lowercase()
}

/// Host and port of a URL as the program takes it apart: the host begins after the last `@` before the path.
fn authority(url: &str) -> Option<(String, Option<u16>)> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    {
        return None;
    }
    let end = |c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace();
    let authority = rest.split(end).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, rest)) => (host.split('%').next().unwrap_or_default(), rest.strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
    };
    let usual = match scheme.to_ascii_lowercase().as_str() {
        "http" => Some(80),
        "https" => Some(443),
        "ssh" => Some(22),
        _ => None,
    };
    // Without a name it is this machine.
    let host = if host.is_empty() { "localhost" } else { host };
    Some((host.to_owned(), port.and_then(|port| port.parse().ok()).or(usual)))
}
