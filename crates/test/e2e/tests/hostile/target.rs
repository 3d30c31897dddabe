//! What is attacked, and what must hold after each attack.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http::{Method, Request};
use kardinal_testkit::up::Up;
use kardinal_testkit::world::{client_of, in_memory};
use kube::client::Body;
use serde_json::{Value, json};

pub(crate) const JSON: &str = "application/json";
/// Far more than any attack may take, and far less than one that succeeds.
const TIME_LIMIT: Duration = Duration::from_secs(30);

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of every thread and task of this process; a runtime may swallow them.
fn count_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            earlier(panic);
        }));
    });
}

/// A server with the Graph controller, through a client.
pub(crate) struct Target<'a> {
    client: &'a kube::Client,
}

/// What the server said.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Value,
    text: String,
}

impl Reply {
    /// The answer has one of these codes and is a `Status` whose message contains the fragments.
    pub(crate) fn refused(self, what: &str, codes: &[u16], fragments: &[&str]) -> anyhow::Result<Reply> {
        let text: String = self.text.chars().take(2000).collect();
        ensure!(
            codes.contains(&self.code),
            "{what}: the code should be one of {codes:?}, not {}: {text}",
            self.code
        );
        ensure!(self.body.pointer("/kind") == Some(&json!("Status")), "{what}: not a Status: {text}");
        let message = self.body.pointer("/message").and_then(Value::as_str).unwrap_or_default();
        ensure!(!message.is_empty(), "{what}: no message: {text}");
        // Whoever sent a large text does not get it back in whole.
        ensure!(self.text.len() < 100_000, "{what}: the answer has {} bytes", self.text.len());
        for fragment in fragments {
            ensure!(message.contains(fragment), "{what}: the message should say `{fragment}`: {text}");
        }
        Ok(self)
    }

    pub(crate) fn accepted(self, what: &str) -> anyhow::Result<Reply> {
        let text: String = self.text.chars().take(2000).collect();
        ensure!((200..300).contains(&self.code), "{what}: should succeed: {text}");
        Ok(self)
    }
}

impl Target<'_> {
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> anyhow::Result<Reply> {
        let started = Instant::now();
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes())?)
            .uri(path)
            .header("content-type", content_type)
            .body(Body::from(body.into()))?;
        let response = self.client.send(request).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        ensure!(started.elapsed() < TIME_LIMIT, "{method} {path:.100} took {:?}", started.elapsed());
        Ok(Reply { code, body: serde_json::from_slice(&bytes).unwrap_or_default(), text })
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Reply> {
        self.send("GET", path, JSON, "").await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> anyhow::Result<Reply> {
        self.send("POST", path, JSON, object.to_string()).await
    }

    /// The server takes a write and gives it back.
    pub(crate) async fn still_answers(&self) -> anyhow::Result<()> {
        let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "alive-"}, "data": {"a": "b"}});
        let made = self.post("/api/v1/namespaces/default/configmaps", &made).await?.accepted("a write")?;
        let name = made.body.pointer("/metadata/name").and_then(Value::as_str).context("a name")?;
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let read = self.get(&path).await?.accepted("a read")?;
        ensure!(read.body.pointer("/data/a") == Some(&json!("b")), "the write is not there");
        self.send("DELETE", &path, JSON, "").await?.accepted("a deletion")?;
        Ok(())
    }

    /// Waits until a condition of a Graph has this status, and returns its message.
    pub(crate) async fn condition(&self, graph: &str, kind: &str, status: &str) -> anyhow::Result<String> {
        let path = format!("/apis/experimental.kro.run/v1alpha1/namespaces/default/graphs/{graph}");
        let deadline = tokio::time::Instant::now() + TIME_LIMIT;
        loop {
            let seen = self.get(&path).await?.accepted("reading a Graph")?;
            let conditions = seen.body.pointer("/status/conditions").and_then(Value::as_array);
            let found = conditions.into_iter().flatten().find(|c| c.get("type") == Some(&json!(kind)));
            if let Some(condition) = found.filter(|c| c.get("status") == Some(&json!(status))) {
                return Ok(condition.get("message").and_then(Value::as_str).unwrap_or_default().to_owned());
            }
            ensure!(
                tokio::time::Instant::now() < deadline,
                "{graph}: no `{kind}` = {status}: {:.2000}",
                seen.text
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Runs attacks on a server in this process, with virtual time.
pub(crate) fn in_process(attack: impl AsyncFnOnce(&Target<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    count_panics();
    let before = PANICS.load(Ordering::SeqCst);
    in_memory(kardinal_testkit::world::graphs(), async |world| {
        let target = Target { client: &world.client };
        attack(&target).await?;
        target.still_answers().await
    })?;
    ensure!(PANICS.load(Ordering::SeqCst) == before, "something panicked");
    Ok(())
}

/// Runs attacks on `kardinal up` over HTTPS.
pub(crate) fn over_https(attack: impl AsyncFnOnce(&Target<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(async {
        let client = client_of(&up.kubeconfig).await?;
        let target = Target { client: &client };
        attack(&target).await?;
        target.still_answers().await
    });
    told.with_context(|| format!("kardinal up said:\n{:.10000}", up.log()))?;
    unharmed(&up)
}

/// Nothing in the log of the server speaks of a panic.
pub(crate) fn unharmed(up: &Up) -> anyhow::Result<()> {
    let log = up.log();
    for word in ["panicked", "overflow", "poisoned"] {
        ensure!(!log.contains(word), "kardinal up says `{word}`:\n{log:.10000}");
    }
    Ok(())
}

/// Makes a test for each of the two ways to reach a server.
macro_rules! in_process_and_over_https {
    ($($attack:ident),+ $(,)?) => {
        mod in_process { $(
            #[test]
            fn $attack() -> anyhow::Result<()> {
                crate::target::in_process(async |target| super::$attack(target).await)
            }
        )+ }

        mod over_https { $(
            #[test]
            fn $attack() -> anyhow::Result<()> {
                crate::target::over_https(async |target| super::$attack(target).await)
            }
        )+ }
    };
}
pub(crate) use in_process_and_over_https;
