//! The settings of one task, as the step lists it.

use jiff::SignedDuration;
use kardinal_api::GoDuration;
use kardinal_api::kardinal::PromotionTask;
use serde_json::{Map, Value};

use super::Problem;
use crate::promotion_step::tasks::{Call, Task, TaskKind};
use crate::promotion_step::{MergeStrategy, SecretKey};

/// How long a custom task may take to answer.
const CALL_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// The header that proves who calls.
const CALL_HEADER: &str = "Authorization";
/// Headers that belong to the connection, to the framing of the request or to those who pass it on.
const RESERVED: [&str; 19] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "origin",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
/// What the names of such headers begin with.
const RESERVED_BEGINNINGS: [&str; 3] = ["proxy-", "sec-", "x-forwarded-"];
/// The longest that a custom task may take; a call is not a place to wait for people.
const LONGEST_CALL: SignedDuration = SignedDuration::from_hours(1);

/// One listed task.
pub(super) fn read(index: usize, task: &PromotionTask) -> Result<Task, Problem> {
    let config = Config { index, uses: &task.uses, config: task.config.as_ref() };
    let kind = match task.uses.as_str() {
        "git-clone" => TaskKind::Clone,
        "kustomize-set-image" => TaskKind::KustomizeImages,
        "helm-set-image" => {
            TaskKind::HelmImages { file: config.text("valuesFile")?, path: config.text("imagePathTemplate")? }
        }
        "replace-image" => TaskKind::ReplaceImages,
        "replace-text" => TaskKind::ReplaceText {
            file: config.text("file")?,
            pattern: config.required("pattern")?,
            with: config.required("with")?,
        },
        "yaml-set" => TaskKind::YamlSet {
            file: config.required("file")?,
            path: config.required("path")?,
            value: config.get("value").cloned().ok_or_else(|| config.missing("value"))?,
        },
        "config-merge" => {
            TaskKind::ConfigMerge { strategy: merge_strategy(&config)?, source_path: config.text("path")? }
        }
        "kustomize-build" => TaskKind::KustomizeBuild {
            output: config.text("output")?.unwrap_or_else(|| "rendered.yaml".to_owned()),
        },
        "git-commit" => TaskKind::Commit,
        "git-push" => TaskKind::Push,
        "open-pr" => TaskKind::OpenPullRequest,
        "wait-for-merge" => TaskKind::WaitForMerge,
        "health-check" => TaskKind::HealthCheck,
        _ => TaskKind::Call(call(&config)?),
    };
    Ok(Task { name: task.uses.clone(), kind })
}

/// The settings of one task, with the names that a message needs.
struct Config<'a> {
    index: usize,
    uses: &'a str,
    config: Option<&'a Map<String, Value>>,
}

impl Config<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.config.and_then(|config| config.get(key)).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<String>, Problem> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(key, &format!("`{other}` is not a text"))),
        }
    }

    fn required(&self, key: &str) -> Result<String, Problem> {
        self.text(key)?.ok_or_else(|| self.missing(key))
    }

    fn missing(&self, key: &str) -> Problem {
        self.wrong(key, "it is missing")
    }

    fn wrong(&self, key: &str, why: &str) -> Problem {
        let Config { index, uses, .. } = self;
        let field = format!("steps[{index}].config.{key}");
        Problem {
            message: format!("{field} of task `{uses}`: {why}"),
            field: format!("spec.{field}"),
            task: Some(*index),
        }
    }
}

fn merge_strategy(config: &Config<'_>) -> Result<MergeStrategy, Problem> {
    match config.text("strategy")?.as_deref() {
        None | Some("cherry-pick") => Ok(MergeStrategy::CherryPick),
        Some("overlay") => Ok(MergeStrategy::Overlay),
        Some(other) => {
            let why = format!("`{other}` is not a strategy; write `cherry-pick` or `overlay`");
            Err(config.wrong("strategy", &why))
        }
    }
}

fn call(config: &Config<'_>) -> Result<Call, Problem> {
    let Some(url) = config.text("url")? else {
        let message = format!(
            "steps[{}]: `{}` is not a built-in task, so it needs `config.url` to be called at; \
             built in are git-clone, kustomize-set-image, helm-set-image, replace-image, replace-text, yaml-set, \
             config-merge, kustomize-build, git-commit, git-push, open-pr, wait-for-merge and health-check",
            config.index, config.uses
        );
        let field = format!("spec.steps[{}].uses", config.index);
        return Err(Problem { field, task: Some(config.index), message });
    };
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(config.wrong("url", "it must start with `https://` or `http://`"));
    }
    // What stands before the host is a credential, and a status is no place for it.
    if url.split('/').nth(2).is_some_and(|host| host.contains('@')) {
        let why = "it must not hold a user name or a password; name a Secret in `config.secretRef`";
        return Err(config.wrong("url", why));
    }
    let timeout = match config.text("timeout")? {
        None => CALL_TIMEOUT,
        Some(text) => {
            let parsed = GoDuration::new(text).parse();
            parsed.map_err(|error| config.wrong("timeout", &error.to_string()))?
        }
    };
    if timeout <= SignedDuration::ZERO || timeout > LONGEST_CALL {
        return Err(config.wrong("timeout", "it must be more than 0s and at most 1h"));
    }
    Ok(Call {
        url,
        timeout,
        secret: secret(config)?,
        header: header(config)?,
        config: config.config.cloned().unwrap_or_default(),
    })
}

fn header(config: &Config<'_>) -> Result<String, Problem> {
    let header = config.text("header")?.unwrap_or_else(|| CALL_HEADER.to_owned());
    let plain = header.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !plain {
        return Err(config.wrong("header", &format!("`{header}` is not the name of a header")));
    }
    let lower = header.to_ascii_lowercase();
    if RESERVED.contains(&lower.as_str()) || RESERVED_BEGINNINGS.iter().any(|part| lower.starts_with(part)) {
        let why = format!(
            "`{header}` says where a request goes, how long it is or who sent it, so it cannot carry a secret; use \
             `{CALL_HEADER}` or one of your own, such as `X-Token`"
        );
        return Err(config.wrong("header", &why));
    }
    Ok(header)
}

fn secret(config: &Config<'_>) -> Result<Option<SecretKey>, Problem> {
    let Some(reference) = config.get("secretRef") else { return Ok(None) };
    let part = |key: &str| reference.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    match part("name") {
        Some(name) => {
            Ok(Some(SecretKey { name: name.to_owned(), key: part("key").unwrap_or("token").to_owned() }))
        }
        None => Err(config.wrong("secretRef", "write `{name: …, key: …}`")),
    }
}
