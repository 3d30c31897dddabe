//! Sends the steps of a case to one server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use crate::case::{Step, Until};
use crate::normalise::Names;

/// How long `@until` and `@watch` wait; only a failing case ever waits that long.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(40);

/// One server and what a case has learnt from it.
pub struct Player {
    client: kube::Client,
    variables: BTreeMap<String, String>,
    names: Names,
}

impl Player {
    /// A player whose requests go to `client`; `{{ns}}` is the case's namespace.
    pub fn new(client: kube::Client, namespace: &str) -> Player {
        let variables = BTreeMap::from([("ns".to_owned(), namespace.to_owned())]);
        Player { client, variables, names: Names::default() }
    }

    /// Sends a step, saves what it says to save, and answers with stable names.
    pub async fn play(&mut self, step: &Step) -> anyhow::Result<Value> {
        let deadline = Instant::now() + PATIENCE;
        let answer = loop {
            let answer = self.send(step).await?;
            let done = match &step.until {
                None => true,
                Some(Until::Code(code)) => answer.get("code") == Some(&json!(code)),
                Some(Until::Field(path, value)) => found(&answer, path) == *value,
            };
            if done || Instant::now() > deadline {
                break answer;
            }
            tokio::time::sleep(PAUSE).await;
        };
        for (name, path) in &step.save {
            self.variables.insert(name.clone(), found(&answer, path));
        }
        Ok(self.names.normalise(answer))
    }

    async fn send(&self, step: &Step) -> anyhow::Result<Value> {
        let body = self.body(step)?;
        let has = |name: &str| step.headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name));
        let mut request = Request::builder().method(step.method.as_str()).uri(self.fill(&step.path)?);
        for (name, value) in &step.headers {
            request = request.header(name, self.fill(value)?);
        }
        if !has("accept") {
            request = request.header("accept", "application/json");
        }
        if !has("user-agent") {
            request = request.header("user-agent", "conformance/1.0");
        }
        if !body.is_empty() && !has("content-type") {
            let json = body.starts_with('{') || body.starts_with('[');
            request =
                request.header("content-type", if json { "application/json" } else { "application/yaml" });
        }
        let request = request.body(Body::from(body.into_bytes()))?;
        let response = self.client.send(request).await.with_context(|| step.title.clone())?;
        let (parts, body) = response.into_parts();
        let mut answer = Map::new();
        answer.insert("code".to_owned(), parts.status.as_u16().into());
        for name in ["content-type", "warning", "retry-after", "allow"] {
            let values: Vec<Value> = parts
                .headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned().into())
                .collect();
            if !values.is_empty() {
                answer.insert(name.to_owned(), Value::Array(values));
            }
        }
        match step.watch {
            Some(count) if parts.status.is_success() => {
                answer.insert("events".to_owned(), Value::Array(events(body, count).await?));
            }
            _ => {
                let bytes = timeout(PATIENCE, body.collect()).await??.to_bytes();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
                answer.insert("body".to_owned(), body);
            }
        }
        Ok(Value::Object(answer))
    }

    fn body(&self, step: &Step) -> anyhow::Result<String> {
        match step.body.strip_prefix("< ") {
            Some(file) => {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
                std::fs::read_to_string(root.join(file)).with_context(|| format!("reading `{file}`"))
            }
            None => self.fill(&step.body),
        }
    }

    fn fill(&self, text: &str) -> anyhow::Result<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").context("`{{` without `}}`")?;
            out.push_str(before);
            out.push_str(
                self.variables.get(name).with_context(|| format!("`{{{{{name}}}}}` was not saved"))?,
            );
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The first events of a stream, or fewer when it ends or falls silent.
async fn events(mut body: Body, count: usize) -> anyhow::Result<Vec<Value>> {
    let mut events = Vec::new();
    let mut buffer: Vec<u8> = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while events.len() < count {
        let Ok(frame) = tokio::time::timeout_at(deadline, body.frame()).await else { break };
        let Some(frame) = frame else {
            if !buffer.is_empty() {
                bail!("the stream ended within a line: {}", String::from_utf8_lossy(&buffer));
            }
            break;
        };
        let Ok(data) = frame?.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            events.push(serde_json::from_slice(&line)?);
        }
    }
    events.truncate(count);
    Ok(events)
}

/// The value at a path like `body.items.0.metadata.name` (`body.` may be left out), as text; strings without quotes.
fn found(answer: &Value, path: &str) -> String {
    let step = |value: &Value, name: &str| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?).cloned(),
        other => other.get(name).cloned(),
    };
    let walk = |start: &Value| path.split('.').try_fold(start.clone(), |value, name| step(&value, name));
    match walk(answer).or_else(|| walk(answer.get("body")?)) {
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => "nothing".to_owned(),
    }
}
