//! What CI sends to `POST /api/v1/bundles`, as the Bundle that it asks for.
//!
//! Two shapes are understood: that of a Bundle's `spec`, with `artifacts`, and the short one, with `images` on top.
//! A field that nobody knows is refused: a misspelt `intent` must not let a version go further than it should.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleIntent, BundleType, GitCommit, Pipeline, Provenance};
use kardinal_object::name_of;
use serde_json::{Map, Value};

use super::create::{NewBundle, check_type, create_bundle};
use super::names::{check_name, check_namespace};
use kardinal_planner::names::{fit, short_hash, slug};
use kardinal_planner::problem::{Problem, listed};

/// Says how a Bundle came to be; what is counted by source reads it.
pub const SOURCE_ANNOTATION: &str = "kardinal.io/source";
/// The longest idempotency key.
const MAX_KEY: usize = 255;
/// The longest head of a name that leaves room for a dash and what a key is hashed to.
const HEAD: usize = 45;

/// A request for a Bundle, read but not yet compared with its Pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BundleRequest {
    /// The Pipeline to go through.
    pub pipeline: String,
    /// Where it lives. Absent: in `default`.
    pub namespace: Option<String>,
    /// The type that was named; it must be that of the content.
    pub kind: Option<BundleType>,
    /// Images as [`NewBundle`] takes them.
    pub images: Vec<String>,
    /// A commit of a configuration repository.
    pub git_commit: Option<GitCommit>,
    /// Where it all comes from.
    pub provenance: Option<Provenance>,
    /// How far it shall go.
    pub intent: Option<BundleIntent>,
    /// Labels for gates to look at.
    pub labels: BTreeMap<String, String>,
}

impl BundleRequest {
    /// Reads a request. All that is wrong with it is told at once.
    pub fn read(body: &Value) -> Result<BundleRequest, Vec<Problem>> {
        let mut problems = Vec::new();
        let Value::Object(fields) = body else {
            return Err(vec![
                Problem::new("body", format!("it is {}", kind_of(body))).hint("send a JSON object"),
            ]);
        };
        let mut reader = Reader { fields, path: "", problems: &mut problems };
        reader.only(&[
            "pipeline",
            "namespace",
            "type",
            "artifacts",
            "images",
            "gitCommit",
            "provenance",
            "intent",
            "labels",
        ]);
        let pipeline = reader.text("pipeline");
        if pipeline.is_none() {
            reader.wrong("pipeline", "is missing", "name the Pipeline to go through");
        }
        let mut request = BundleRequest {
            pipeline: pipeline.unwrap_or_default(),
            namespace: reader.text("namespace"),
            kind: reader.one_of(
                "type",
                &[("image", BundleType::Image), ("config", BundleType::Config), ("mixed", BundleType::Mixed)],
            ),
            labels: reader.texts("labels"),
            intent: reader.object("intent", intent),
            provenance: reader.object("provenance", provenance),
            images: reader.list("images", image),
            git_commit: reader.object("gitCommit", commit),
        };
        if fields.contains_key("artifacts")
            && (fields.contains_key("images") || fields.contains_key("gitCommit"))
        {
            let message = "`images` and `gitCommit` stand in it or beside it, not both";
            reader.wrong("artifacts", message, "keep one of the two");
        }
        if let Some((images, commit)) = reader.object("artifacts", artifacts) {
            request.images.extend(images);
            request.git_commit = request.git_commit.or(commit);
        }
        let named = |name: &&String| !name.is_empty();
        let pipeline = Some(&request.pipeline).filter(named).map(|name| check_name("pipeline", name));
        let namespace = request.namespace.as_ref().map(|name| check_namespace("namespace", name));
        problems.extend([pipeline, namespace].into_iter().flatten().filter_map(Result::err));
        if problems.is_empty() { Ok(request) } else { Err(problems) }
    }
}

impl BundleRequest {
    /// Where its Pipeline lives.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }
}

/// The Bundle that a request asks for. With an idempotency key its name follows from the key alone, so that the server
/// itself refuses a second one.
pub fn bundle_of_request(
    pipeline: &Pipeline,
    request: &BundleRequest,
    key: Option<&str>,
    source: &str,
    now: Timestamp,
) -> Result<Bundle, Problem> {
    let images: Vec<&str> = request.images.iter().map(String::as_str).collect();
    let intent = request.intent.clone().unwrap_or_default();
    let new = NewBundle {
        pipeline: name_of(&pipeline.metadata),
        namespace: pipeline.metadata.namespace.as_deref().unwrap_or_default(),
        known: Some(pipeline),
        images: &images,
        git_commit: request.git_commit.clone(),
        provenance: request.provenance.clone(),
        target: intent.target.as_deref(),
        skip: &intent.skip,
        labels: request.labels.clone(),
    };
    let mut bundle = create_bundle(&new, now)?;
    check_type(&bundle, request.kind)?;
    if let Some(key) = key {
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(Problem::new("Idempotency-Key", format!("has {} characters", key.len()))
                .hint(format!("send 1 to {MAX_KEY} characters")));
        }
        bundle.metadata.name = Some(name_by_key(name_of(&pipeline.metadata), key));
    }
    let annotations = bundle.metadata.annotations.get_or_insert_default();
    annotations.insert(SOURCE_ANNOTATION.to_owned(), source.to_owned());
    Ok(bundle)
}

/// Whether an existing Bundle is what a request asked for; what was added to it since does not count.
pub fn is_answer_to(found: &Bundle, wanted: &Bundle) -> bool {
    let has = |(key, value): (&String, &String)| {
        found.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value)
    };
    found.spec == wanted.spec && wanted.metadata.labels.iter().flatten().all(has)
}

fn name_by_key(pipeline: &str, key: &str) -> String {
    let first = short_hash(&format!("{pipeline}\n{key}"));
    let second = short_hash(&format!("{key}\n{pipeline}"));
    format!("{}-{first}{second}", fit(&slug(pipeline), HEAD))
}

/// The fields of one object, and what was found wrong so far.
struct Reader<'a> {
    fields: &'a Map<String, Value>,
    path: &'a str,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn at(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    fn wrong(&mut self, field: &str, message: impl Into<String>, hint: &str) {
        let problem = Problem::new(self.at(field), message).hint(hint);
        self.problems.push(problem);
    }

    /// Refuses fields of any other name.
    fn only(&mut self, known: &[&str]) {
        let fields = self.fields;
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            self.wrong(&short(name), "is not known", &format!("known are {}", listed(known.iter().copied())));
        }
    }

    /// A field that is there and not null.
    fn value(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    /// A text that is not empty.
    fn text(&mut self, field: &str) -> Option<String> {
        match self.value(field)?.clone() {
            Value::String(text) if !text.is_empty() => return Some(text),
            Value::String(_) => self.wrong(field, "is empty", "fill it in or leave it out"),
            other => self.wrong(field, format!("it is {}", kind_of(&other)), "send a text"),
        }
        None
    }

    fn one_of<T: Copy>(&mut self, field: &str, known: &[(&str, T)]) -> Option<T> {
        let text = self.text(field)?;
        let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let names = listed(known.iter().map(|(name, _)| *name));
            self.wrong(field, format!("`{}` is not known", short(&text)), &format!("allowed are {names}"));
        }
        found
    }

    fn time(&mut self, field: &str) -> Option<Timestamp> {
        let text = self.text(field)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.wrong(
                field,
                format!("`{}` is not a time", short(&text)),
                "write it as `2026-04-09T10:00:00Z`",
            );
        }
        parsed
    }

    /// A map of texts.
    fn texts(&mut self, field: &str) -> BTreeMap<String, String> {
        let path = self.at(field);
        match self.value(field).cloned() {
            None => BTreeMap::new(),
            Some(Value::Object(fields)) => {
                let mut inner = Reader { fields: &fields, path: &path, problems: self.problems };
                let pairs = fields.keys().filter_map(|key| Some((key.clone(), inner.any_text(key)?)));
                pairs.collect()
            }
            Some(other) => {
                self.wrong(field, format!("it is {}", kind_of(&other)), "send an object of texts");
                BTreeMap::new()
            }
        }
    }

    /// A text that may be empty.
    fn any_text(&mut self, field: &str) -> Option<String> {
        match self.fields.get(field).cloned()? {
            Value::String(text) => Some(text),
            other => {
                self.wrong(field, format!("it is {}", kind_of(&other)), "send a text");
                None
            }
        }
    }

    fn object<T>(&mut self, field: &str, read: impl FnOnce(&mut Reader<'_>) -> Option<T>) -> Option<T> {
        let path = self.at(field);
        match self.value(field)?.clone() {
            Value::Object(fields) => {
                read(&mut Reader { fields: &fields, path: &path, problems: self.problems })
            }
            other => {
                self.wrong(field, format!("it is {}", kind_of(&other)), "send an object");
                None
            }
        }
    }

    fn list<T>(&mut self, field: &str, read: impl Fn(&mut Reader<'_>) -> Option<T>) -> Vec<T> {
        let items = match self.value(field).cloned() {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.wrong(field, format!("it is {}", kind_of(&other)), "send a list of objects");
                return Vec::new();
            }
        };
        let mut read_items = Vec::new();
        for (position, item) in items.iter().enumerate() {
            let path = format!("{}[{position}]", self.at(field));
            match item {
                Value::Object(fields) => {
                    read_items.extend(read(&mut Reader { fields, path: &path, problems: self.problems }));
                }
                other => {
                    let problem =
                        Problem::new(path, format!("it is {}", kind_of(other))).hint("send an object");
                    self.problems.push(problem);
                }
            }
        }
        read_items
    }
}

fn artifacts(reader: &mut Reader<'_>) -> Option<(Vec<String>, Option<GitCommit>)> {
    reader.only(&["images", "gitCommit"]);
    Some((reader.list("images", image), reader.object("gitCommit", commit)))
}

/// `{name, reference, digest}` as in a Bundle, or `{repository, tag, digest}`.
fn image(reader: &mut Reader<'_>) -> Option<String> {
    reader.only(&["name", "reference", "repository", "tag", "digest"]);
    let name = reader.text("name").map(|name| format!("{name}=")).unwrap_or_default();
    let reference = reader.text("reference");
    let repository = reader.text("repository");
    let tag = reader.text("tag").map(|tag| format!(":{tag}")).unwrap_or_default();
    let digest = reader.text("digest").map(|digest| format!("@{digest}")).unwrap_or_default();
    let image = match (reference, repository) {
        (Some(reference), None) if tag.is_empty() => reference,
        (None, Some(repository)) => format!("{repository}{tag}"),
        (None, None) => {
            reader.wrong("reference", "is missing", "send `reference`, or `repository` and `tag`");
            return None;
        }
        _ => {
            let message = "`reference` and `repository` or `tag` say the same twice";
            reader.wrong("reference", message, "send `reference`, or `repository` and `tag`");
            return None;
        }
    };
    // A digest at the end of the reference and one beside it are the same, or a mistake.
    match image.split_once('@') {
        Some((_, inside)) if !digest.is_empty() && digest != format!("@{inside}") => {
            reader.wrong("digest", "differs from that of the reference", "send one of the two");
            None
        }
        Some(_) => Some(format!("{name}{image}")),
        None => Some(format!("{name}{image}{digest}")),
    }
}

fn commit(reader: &mut Reader<'_>) -> Option<GitCommit> {
    reader.only(&["repository", "sha", "message"]);
    let (repository, sha) = (reader.text("repository"), reader.text("sha"));
    for (field, value) in [("repository", &repository), ("sha", &sha)] {
        if value.is_none() && reader.value(field).is_none() {
            reader.wrong(field, "is missing", "a commit needs its repository and its id");
        }
    }
    Some(GitCommit { repository: repository?, sha: sha?, message: reader.text("message") })
}

fn provenance(reader: &mut Reader<'_>) -> Option<Provenance> {
    reader.only(&["commitSHA", "ciRunURL", "author", "timestamp", "buildTimestamp"]);
    let provenance = Provenance {
        commit_sha: reader.text("commitSHA"),
        ci_run_url: reader.text("ciRunURL"),
        author: reader.text("author"),
        build_timestamp: reader.time("buildTimestamp").or_else(|| reader.time("timestamp")),
        rollback_of: None,
    };
    (provenance != Provenance::default()).then_some(provenance)
}

fn intent(reader: &mut Reader<'_>) -> Option<BundleIntent> {
    reader.only(&["target", "skip"]);
    let target = reader.text("target");
    let skip = match reader.value("skip").cloned() {
        None => Vec::new(),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
            names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(_) => {
            reader.wrong("skip", "it is no list of texts", "send the names of environments");
            Vec::new()
        }
    };
    Some(BundleIntent { target, skip })
}

/// A value in messages: not longer than people read.
fn short(text: &str) -> String {
    text.chars().take(63).collect()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pipeline() -> Pipeline {
        serde_json::from_value(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "my-app", "namespace": "default"},
            "spec": {"git": {"url": "u"}, "environments": [{"name": "dev"}, {"name": "prod"}]},
        }))
        .unwrap()
    }

    fn made(body: &Value, key: Option<&str>) -> Result<Bundle, Vec<Problem>> {
        let request = BundleRequest::read(body)?;
        let now = Timestamp::from_second(1_712_567_890).unwrap();
        bundle_of_request(&pipeline(), &request, key, "api", now).map_err(|problem| vec![problem])
    }

    #[test]
    fn both_shapes_make_the_same_bundle() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let spec = json!({"pipeline": "my-app", "type": "image", "artifacts": {"images": [
            {"name": "my-app", "reference": "ghcr.io/myorg/my-app:1.29.0", "digest": digest},
        ]}, "provenance": {"commitSHA": "abc", "buildTimestamp": "2026-04-09T10:00:00Z"}});
        let short = json!({"pipeline": "my-app", "images": [
            {"repository": "ghcr.io/myorg/my-app", "tag": "1.29.0", "digest": digest},
        ], "provenance": {"commitSHA": "abc", "timestamp": "2026-04-09T10:00:00Z"}});
        let bundle = made(&spec, None).unwrap();
        assert_eq!(made(&short, None).unwrap(), bundle);
        assert_eq!(bundle.metadata.name.as_deref(), Some("my-app-v1-29-0-1712567890"));
        assert_eq!(bundle.metadata.annotations.unwrap()[SOURCE_ANNOTATION], "api");
        let image = bundle.spec.artifacts.images.first().unwrap();
        assert_eq!((image.name.as_str(), image.digest.as_deref()), ("my-app", Some(digest.as_str())));
    }

    #[test]
    fn a_key_names_the_bundle_whatever_it_carries() {
        let with = |tag: &str, key| {
            let body = json!({"pipeline": "my-app", "images": [{"repository": "r/my-app", "tag": tag}]});
            made(&body, Some(key)).unwrap()
        };
        let (one, other) = (with("1", "run-7"), with("2", "run-7"));
        assert_eq!(one.metadata.name, other.metadata.name);
        assert!(!is_answer_to(&one, &other) && is_answer_to(&one, &with("1", "run-7")));
        assert_ne!(one.metadata.name, with("1", "run-8").metadata.name);
        let mut grown = one.clone();
        grown.metadata.labels.get_or_insert_default().insert("later".to_owned(), "x".to_owned());
        assert!(is_answer_to(&grown, &one) && !is_answer_to(&one, &grown));
    }

    #[test]
    fn every_mistake_names_its_field() {
        let image = json!([{"repository": "r/my-app", "tag": "1"}]);
        for (body, field, part) in [
            (json!(7), "body", "a number"),
            (json!({"images": image}), "pipeline", "missing"),
            (json!({"pipeline": 7, "images": image}), "pipeline", "a number"),
            (json!({"pipeline": "my-app", "intnet": {}, "images": image}), "intnet", "not known"),
            (json!({"pipeline": "my-app", "type": "chart", "images": image}), "type", "`chart`"),
            (json!({"pipeline": "my-app", "type": "config", "images": image}), "type", "`image`"),
            (json!({"pipeline": "my-app"}), "images", "nothing"),
            (json!({"pipeline": "my-app", "images": {}}), "images", "an object"),
            (json!({"pipeline": "my-app", "images": ["x:1"]}), "images[0]", "a text"),
            (json!({"pipeline": "my-app", "images": [{"tag": "1"}]}), "images[0].reference", "missing"),
            (json!({"pipeline": "my-app", "images": [{"repository": "r/a"}]}), "images[0]", "neither a tag"),
            (
                json!({"pipeline": "my-app", "images": [{"repository": "r/a", "tag": "1", "digest": "sha256:x"}]}),
                "images[0]",
                "digest",
            ),
            (
                json!({"pipeline": "my-app", "artifacts": {"images": image}, "images": image}),
                "artifacts",
                "not both",
            ),
            (
                json!({"pipeline": "my-app", "images": image, "intent": {"target": "qa"}}),
                "spec.intent.target",
                "qa",
            ),
            (
                json!({"pipeline": "my-app", "images": image, "intent": {"skip": "dev"}}),
                "intent.skip",
                "list",
            ),
            (json!({"pipeline": "my-app", "images": image, "labels": {"a": 1}}), "labels.a", "a number"),
            (
                json!({"pipeline": "my-app", "gitCommit": {"sha": "abc1234"}}),
                "gitCommit.repository",
                "missing",
            ),
            (
                json!({"pipeline": "my-app", "images": image, "provenance": {"timestamp": "noon"}}),
                "provenance.timestamp",
                "`noon`",
            ),
        ] {
            let problems = made(&body, None).unwrap_err();
            let found = problems.iter().any(|one| one.field == field && one.message.contains(part));
            assert!(found, "{body}: {problems:?}");
            assert!(problems.iter().all(|one| one.hint.is_some()), "{problems:?}");
        }
        let two = made(&json!({"pipeline": 7, "images": 7}), None).unwrap_err();
        assert_eq!(two.iter().filter(|one| one.message.contains("a number")).count(), 2, "{two:?}");
        let key = "k".repeat(256);
        assert!(made(&json!({"pipeline": "my-app", "images": image}), Some(&key)).is_err());
    }
}
