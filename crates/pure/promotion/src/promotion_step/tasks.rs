//! The tasks of a promotion: those that follow from strategy and approval, or those that the user listed.

use std::fmt;

use jiff::SignedDuration;
use kardinal_api::GoDuration;
use kardinal_api::kardinal::{
    Approval, Bundle, BundleType, PromotionStep, PromotionStepSpec, PromotionTask, UpdateStrategy,
};
use serde_json::{Map, Value};

use super::{MergeStrategy, SecretKey};

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

/// What is wrong with the order, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The task that is wrong, counted from 0.
    pub task: Option<usize>,
    /// Why, and what to change.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// One task of a promotion.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, as `uses` has it.
    pub name: String,
    /// What it does.
    pub kind: TaskKind,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskKind {
    /// `git-clone`: read the repository.
    Clone,
    /// `kustomize-set-image`.
    KustomizeImages,
    /// `helm-set-image`, with the values file and the path of the tag; absent ones are those of `update.helm`.
    HelmImages {
        /// The values file.
        file: Option<String>,
        /// The path of the tag.
        path: Option<String>,
    },
    /// `replace-image`: the promoted images wherever plain YAML names them.
    ReplaceImages,
    /// `replace-text`.
    ReplaceText {
        /// The file; absent: every YAML file.
        file: Option<String>,
        /// The regular expression.
        pattern: String,
        /// What to put in its place.
        with: String,
    },
    /// `yaml-set`.
    YamlSet {
        /// The file.
        file: String,
        /// The dotted path.
        path: String,
        /// The value.
        value: Value,
    },
    /// `config-merge`.
    ConfigMerge {
        /// How.
        strategy: MergeStrategy,
        /// The directory to take from.
        source_path: Option<String>,
    },
    /// `kustomize-build`, with the file to write.
    KustomizeBuild {
        /// The file.
        output: String,
    },
    /// `git-commit`: make the commit.
    Commit,
    /// `git-push`: push it.
    Push,
    /// `open-pr`.
    OpenPullRequest,
    /// `wait-for-merge`.
    WaitForMerge,
    /// `health-check`.
    HealthCheck,
    /// Anything else: a webhook.
    Call(Call),
}

/// How a custom task is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Where to post to.
    pub url: String,
    /// How long to wait for the answer.
    pub timeout: SignedDuration,
    /// The Secret that proves who calls.
    pub secret: Option<SecretKey>,
    /// The header that carries it.
    pub header: String,
    /// The settings, which the request repeats.
    pub config: Map<String, Value>,
}

impl TaskKind {
    /// Whether the push carries it out: reading, editing and committing are one write.
    pub(super) fn is_gathered(&self) -> bool {
        self.is_edit() || matches!(self, TaskKind::Clone | TaskKind::Commit)
    }

    fn is_edit(&self) -> bool {
        self.sets_images() || matches!(self, TaskKind::ConfigMerge { .. } | TaskKind::KustomizeBuild { .. })
    }

    fn sets_images(&self) -> bool {
        matches!(
            self,
            TaskKind::KustomizeImages
                | TaskKind::HelmImages { .. }
                | TaskKind::ReplaceImages
                | TaskKind::ReplaceText { .. }
                | TaskKind::YamlSet { .. }
        )
    }
}

/// The tasks of a step for a Bundle of the given type, in order, checked.
pub fn tasks(spec: &PromotionStepSpec, bundle: BundleType) -> Result<Vec<Task>, Problem> {
    let listed = match &spec.steps {
        Some(steps) => {
            let read = steps.iter().enumerate().map(|(index, task)| read(index, task));
            read.collect::<Result<Vec<Task>, Problem>>()?
        }
        None => defaults(spec, bundle),
    };
    check_order(&listed)?;
    check_approval(spec, &listed)?;
    check_bundle(spec, &listed, bundle)?;
    Ok(listed)
}

/// Whether the change goes through a pull request.
pub(super) fn opens_pull_request(tasks: &[Task]) -> bool {
    tasks.iter().any(|task| task.kind == TaskKind::OpenPullRequest)
}

/// Every type that a Bundle can have.
pub(crate) const TYPES: [BundleType; 3] = [BundleType::Image, BundleType::Config, BundleType::Mixed];

/// Whether a step opens a pull request for a Bundle of some type.
pub(super) fn may_open_pull_request(spec: &PromotionStepSpec) -> bool {
    TYPES.into_iter().any(|kind| tasks(spec, kind).is_ok_and(|tasks| opens_pull_request(&tasks)))
}

/// Whether the change of a Bundle goes through a pull request in this step.
pub(super) fn wants_pull_request(step: &PromotionStep, bundle: &Bundle) -> bool {
    tasks(&step.spec, bundle.spec.kind()).is_ok_and(|tasks| opens_pull_request(&tasks))
}

fn defaults(spec: &PromotionStepSpec, bundle: BundleType) -> Vec<Task> {
    let strategy = spec.update.as_ref().and_then(|update| update.strategy).unwrap_or_default();
    let set_images = match strategy {
        UpdateStrategy::Kustomize => ("kustomize-set-image", TaskKind::KustomizeImages),
        UpdateStrategy::Helm => ("helm-set-image", TaskKind::HelmImages { file: None, path: None }),
        UpdateStrategy::Replace => ("replace-image", TaskKind::ReplaceImages),
    };
    let merge =
        ("config-merge", TaskKind::ConfigMerge { strategy: MergeStrategy::CherryPick, source_path: None });
    let mut tasks = vec![("git-clone", TaskKind::Clone)];
    match bundle {
        BundleType::Image => tasks.push(set_images),
        BundleType::Config => tasks.push(merge),
        BundleType::Mixed => tasks.extend([merge, set_images]),
    }
    tasks.extend([("git-commit", TaskKind::Commit), ("git-push", TaskKind::Push)]);
    if reviewed(spec) || spec.pr == Some(true) {
        tasks.extend([("open-pr", TaskKind::OpenPullRequest), ("wait-for-merge", TaskKind::WaitForMerge)]);
    }
    tasks.push(("health-check", TaskKind::HealthCheck));
    tasks.into_iter().map(|(name, kind)| Task { name: name.to_owned(), kind }).collect()
}

pub(super) fn reviewed(spec: &PromotionStepSpec) -> bool {
    spec.approval.unwrap_or_default() == Approval::PrReview
}

fn read(index: usize, task: &PromotionTask) -> Result<Task, Problem> {
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
        let message = format!("steps[{index}].config.{key} of task `{uses}`: {why}");
        Problem { task: Some(*index), message }
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
        return Err(Problem { task: Some(config.index), message });
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

/// The tasks that may be there once, each with the one that must come before it.
const ONCE: [(&str, Option<&str>); 6] = [
    ("git-clone", None),
    ("git-commit", Some("git-clone")),
    ("git-push", Some("git-commit")),
    ("open-pr", Some("git-push")),
    ("wait-for-merge", Some("open-pr")),
    ("health-check", None),
];
/// The tasks that mean nothing without another one after them.
const UNFINISHED: [(&str, &str); 2] = [("git-commit", "git-push"), ("open-pr", "wait-for-merge")];

fn check_order(tasks: &[Task]) -> Result<(), Problem> {
    let place = |name: &str| tasks.iter().position(|task| task.name == name);
    for (name, needs) in ONCE {
        let mut places = tasks.iter().enumerate().filter(|(_, task)| task.name == name);
        let Some((at, _)) = places.next() else { continue };
        if let Some((again, _)) = places.next() {
            return Err(problem(again, format!("`{name}` is listed twice; a step makes one change")));
        }
        if let Some(before) = needs
            && place(before).is_none_or(|place| place > at)
        {
            return Err(problem(at, format!("`{name}` needs `{before}` before it")));
        }
    }
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.kind.is_edit()) {
        let name = &task.name;
        if place("git-clone").is_none_or(|clone| clone > index) {
            return Err(problem(index, format!("`{name}` needs `git-clone` before it")));
        }
        if place("git-commit").is_none_or(|commit| commit < index) {
            return Err(problem(index, format!("`{name}` needs `git-commit` after it")));
        }
    }
    for (name, after) in UNFINISHED {
        if let (Some(at), None) = (place(name), place(after)) {
            return Err(problem(at, format!("`{name}` needs `{after}` after it")));
        }
    }
    for arrives in ["git-push", "wait-for-merge"] {
        if let (Some(health), Some(arrived)) = (place("health-check"), place(arrives))
            && health < arrived
        {
            return Err(problem(health, format!("`health-check` must come after `{arrives}`")));
        }
    }
    Ok(())
}

fn check_approval(spec: &PromotionStepSpec, tasks: &[Task]) -> Result<(), Problem> {
    let pushes = tasks.iter().any(|task| task.kind == TaskKind::Push);
    if opens_pull_request(tasks) || !pushes {
        return Ok(());
    }
    let why = if reviewed(spec) {
        "`approval: pr-review`"
    } else if spec.pr == Some(true) {
        "`pr: true`"
    } else {
        return Ok(());
    };
    let message = format!("steps: {why} needs `open-pr` and `wait-for-merge` after `git-push`");
    Err(Problem { task: None, message })
}

fn check_bundle(spec: &PromotionStepSpec, tasks: &[Task], bundle: BundleType) -> Result<(), Problem> {
    let Some(push) = tasks.iter().position(|task| task.kind == TaskKind::Push) else { return Ok(()) };
    if spec.git.is_none() {
        return Err(problem(push, "`git-push` needs `spec.git.url`".to_owned()));
    }
    let sets_images = tasks.iter().any(|task| task.kind.sets_images());
    let merges = tasks.iter().any(|task| matches!(task.kind, TaskKind::ConfigMerge { .. }));
    let missing = match bundle {
        BundleType::Image | BundleType::Mixed if !sets_images => {
            "a task that sets images, such as `kustomize-set-image`,"
        }
        BundleType::Config | BundleType::Mixed if !merges => "`config-merge`",
        _ => return Ok(()),
    };
    let kind = match bundle {
        BundleType::Image => "image",
        BundleType::Config => "config",
        BundleType::Mixed => "mixed",
    };
    let message = format!("steps: a Bundle of type `{kind}` needs {missing} before `git-commit`");
    Err(Problem { task: None, message })
}

fn problem(index: usize, message: String) -> Problem {
    Problem { task: Some(index), message: format!("steps[{index}]: {message}") }
}
