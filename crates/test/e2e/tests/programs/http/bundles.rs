//! `POST /api/v1/bundles`.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use kardinal_api::kardinal::Bundle;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{Web, ci_headers, now, signature};

/// What came back.
pub(super) struct Answer {
    pub(super) code: u16,
    retry_after: Option<String>,
    pub(super) body: Value,
}

impl Answer {
    /// The fields that are complained about.
    pub(super) fn fields(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        errors.iter().filter_map(|error| error["field"].as_str()).collect()
    }
}

impl Web {
    pub(super) async fn send(&self, body: Vec<u8>, headers: &[(&str, String)]) -> anyhow::Result<Answer> {
        let mut request = self.http.post(format!("{}/api/v1/bundles", self.url)).body(body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = request.send().await?;
        let code = answer.status().as_u16();
        let retry_after = answer.headers().get("retry-after").map(|value| value.to_str().map(str::to_owned));
        let retry_after = retry_after.transpose()?;
        let body = serde_json::from_str(&answer.text().await?).context("every answer is JSON")?;
        Ok(Answer { code, retry_after, body })
    }

    /// As CI does it: with the token and a signature.
    pub(super) async fn post(&self, body: &Value, key: Option<&str>) -> anyhow::Result<Answer> {
        self.post_raw(body.to_string().into_bytes(), key).await
    }

    async fn post_raw(&self, body: Vec<u8>, key: Option<&str>) -> anyhow::Result<Answer> {
        let (token, signing) = (self.key("api-token")?, self.key("api-signing-key")?);
        let headers = ci_headers(&token, &signing, now(), key, &body)?;
        self.send(body, &headers).await
    }

    pub(super) async fn bundles(&self) -> anyhow::Result<Vec<Bundle>> {
        let api: Api<Bundle> = Api::namespaced(self.kube.clone(), "default");
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Nothing is promoted: the Pipeline is paused.
    pub(super) async fn pipeline(&self) -> anyhow::Result<()> {
        self.apply(&json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "Pipeline",
            "metadata": {"name": "my-app"},
            "spec": {
                "paused": true,
                "git": {"url": format!("{}/git/default/gitops.git", self.url), "provider": "local"},
                "environments": [{"name": "dev"}, {"name": "prod"}],
            },
        }))
        .await
    }
}

pub(super) fn wish(tag: &str) -> Value {
    json!({"pipeline": "my-app", "images": [{"repository": "ghcr.io/myorg/my-app", "tag": tag}]})
}

#[tokio::test]
async fn only_ci_gets_in() -> anyhow::Result<()> {
    let web = Web::start().await?;
    web.pipeline().await?;
    let body = wish("1.29.0").to_string().into_bytes();
    let (token, key) = (web.key("api-token")?, web.key("api-signing-key")?);
    let good = ci_headers(&token, &key, now(), None, &body)?;
    let with = |name: &str, value: String| {
        let changed = |(header, old): &(&'static str, String)| match *header == name {
            true => (*header, value.clone()),
            false => (*header, old.clone()),
        };
        good.iter().map(changed).collect::<Vec<_>>()
    };
    let without = |name: &str| good.iter().filter(|(header, _)| *header != name).cloned().collect::<Vec<_>>();
    let signed_by = |key: &str, body: &[u8]| ci_headers(&token, key, now(), None, body);
    for (headers, part) in [
        (vec![], "token"),
        (without("Authorization"), "token"),
        (with("Authorization", "Bearer wrong".to_owned()), "token"),
        (with("Authorization", format!("Basic {token}")), "token"),
        (with("Authorization", format!("Bearer {}", web.key("webhook-secret")?)), "token"),
        (with("Authorization", format!("Bearer {}", web.key("git-token")?)), "token"),
        (with("Authorization", "Bearer ".to_owned()), "token"),
        (without("X-Kardinal-Signature"), "X-Kardinal-Signature"),
        (signed_by("another key", &body)?, "X-Kardinal-Signature"),
        (signed_by(&key, b"{}")?, "X-Kardinal-Signature"),
        (with("X-Kardinal-Signature", "sha256=".to_owned()), "X-Kardinal-Signature"),
        // The body alone was once enough; it could be repeated for ever.
        (with("X-Kardinal-Signature", signature(&key, &body)?), "X-Kardinal-Signature"),
        (without("X-Kardinal-Timestamp"), "X-Kardinal-Timestamp"),
        (ci_headers(&token, &key, now() - 400, None, &body)?, "5 minutes"),
        (ci_headers(&token, &key, now() + 400, None, &body)?, "5 minutes"),
    ] {
        let answer = web.send(body.clone(), &headers).await?;
        let said = answer.body["error"].as_str().unwrap_or_default();
        ensure!(answer.code == 401 && said.contains(part), "{headers:?}: {} {said}", answer.code);
        ensure!(!said.contains(&web.key("api-token")?), "no secret is told");
    }
    ensure!(web.bundles().await?.is_empty(), "nobody got in");
    let answer = web.send(body.clone(), &good).await?;
    ensure!(answer.code == 201, "{} {}", answer.code, answer.body);
    // Whoever has listened cannot say it again.
    let copy = web.send(body, &good).await?;
    ensure!(copy.code == 409 && web.bundles().await?.len() == 1, "{} {}", copy.code, copy.body);
    Ok(())
}

#[tokio::test]
async fn a_key_that_says_nothing_is_refused_and_lets_no_copy_through() -> anyhow::Result<()> {
    let web = Web::start().await?;
    web.pipeline().await?;
    let body = wish("1.29.0").to_string().into_bytes();
    let (token, key) = (web.key("api-token")?, web.key("api-signing-key")?);
    let good = ci_headers(&token, &key, now(), None, &body)?;
    ensure!(web.send(body.clone(), &good).await?.code == 201);
    for nothing in ["", "\u{e4}"] {
        let mut copy = good.clone();
        copy.push(("Idempotency-Key", nothing.to_owned()));
        let answer = web.send(body.clone(), &copy).await?;
        let said = answer.body["error"].as_str().unwrap_or_default();
        ensure!(answer.code == 400 && said.contains("Idempotency-Key"), "{} {}", answer.code, answer.body);
        let again = web.send(body.clone(), &good).await?;
        ensure!(again.code == 409, "{} {}", again.code, again.body);
    }
    ensure!(web.bundles().await?.len() == 1);
    Ok(())
}

#[tokio::test]
async fn requests_become_bundles() -> anyhow::Result<()> {
    let web = Web::start().await?;
    web.pipeline().await?;
    let digest = format!("sha256:{}", "0a".repeat(32));
    let whole = json!({
        "pipeline": "my-app", "namespace": "default", "type": "image",
        "artifacts": {"images": [
            {"name": "my-app", "reference": "ghcr.io/myorg/my-app:1.29.0", "digest": digest},
        ]},
        "provenance": {"commitSHA": "abc123", "ciRunURL": "https://ci.example/1", "author": "alice"},
        "intent": {"target": "dev"}, "labels": {"team": "shop"},
    });
    let answer = web.post(&whole, None).await?;
    ensure!(answer.code == 201 && answer.body["namespace"] == "default", "{} {}", answer.code, answer.body);
    let api: Api<Bundle> = Api::namespaced(web.kube.clone(), "default");
    let bundle = api.get(answer.body["name"].as_str().context("a name")?).await?;
    let image = bundle.spec.artifacts.images.first().context("an image")?;
    ensure!(image.digest.as_deref() == Some(digest.as_str()) && image.name == "my-app", "{image:?}");
    ensure!(bundle.spec.intent.and_then(|intent| intent.target).as_deref() == Some("dev"));
    let labels = bundle.metadata.labels.unwrap_or_default();
    ensure!(labels["team"] == "shop" && labels["kardinal.io/pipeline"] == "my-app", "{labels:?}");

    // The same key twice: one Bundle. The same key for something else: refused.
    let (first, second) =
        (web.post(&wish("1.30.0"), Some("run-7")).await?, web.post(&wish("1.30.0"), Some("run-7")).await?);
    ensure!((first.code, second.code) == (201, 200), "{} {}", first.code, second.code);
    ensure!(first.body == second.body, "{} {}", first.body, second.body);
    let other = web.post(&wish("1.31.0"), Some("run-7")).await?;
    ensure!(other.code == 409, "{} {}", other.code, other.body);
    // Many at once with one key: one Bundle, too.
    let (body, before) = (wish("1.32.0"), web.bundles().await?.len());
    let all = futures::future::try_join_all((0..8).map(|_| web.post(&body, Some("run-8")))).await?;
    let names: BTreeSet<String> = all.iter().map(|answer| answer.body["name"].to_string()).collect();
    ensure!(names.len() == 1 && all.iter().filter(|answer| answer.code == 201).count() == 1, "{names:?}");
    ensure!(web.bundles().await?.len() == before + 1);
    // Two versions that differ in nothing but the digest, in one second.
    let with = |digit: &str| {
        let digest = format!("sha256:{}", digit.repeat(64));
        json!({"pipeline": "my-app", "images": [{"repository": "r/my-app", "tag": "2.0.0", "digest": digest}]})
    };
    let (one, two) = (with("1"), with("2"));
    let (one, two) = futures::future::try_join(web.post(&one, None), web.post(&two, None)).await?;
    ensure!((one.code, two.code) == (201, 201) && one.body != two.body, "{} {}", one.body, two.body);
    Ok(())
}

#[tokio::test]
async fn mistakes_are_named_and_leave_nothing() -> anyhow::Result<()> {
    let web = Web::start().await?;
    web.pipeline().await?;
    let image = json!([{"repository": "r/my-app", "tag": "1"}]);
    for (body, field) in [
        (json!([]), "body"),
        (json!({}), "pipeline"),
        (json!({"pipeline": "my-app"}), "images"),
        (json!({"pipeline": "nobody", "images": image}), "pipeline"),
        (json!({"pipeline": "my-app", "namespace": "elsewhere", "images": image}), "pipeline"),
        (json!({"pipeline": "my-app", "images": image, "intnet": {"target": "dev"}}), "intnet"),
        (json!({"pipeline": "my-app", "images": image, "intent": {"target": "qa"}}), "spec.intent.target"),
        (json!({"pipeline": "my-app", "images": [{"repository": "r/my-app"}]}), "images[0]"),
        (json!({"pipeline": "my-app", "images": image, "type": "config"}), "type"),
        (json!({"pipeline": "my-app", "images": image, "labels": {"not a label!": "x"}}), "body"),
    ] {
        let answer = web.post(&body, None).await?;
        ensure!(
            answer.code == 422 && answer.fields().contains(&field),
            "{body}: {} {}",
            answer.code,
            answer.body
        );
    }
    for malformed in [&b""[..], b"{", b"\xff\xfe", b"{\"pipeline\": \"my-app\"} trailing"] {
        let answer = web.post_raw(malformed.to_vec(), None).await?;
        ensure!(
            answer.code == 422 && answer.fields() == ["body"],
            "{malformed:?}: {} {}",
            answer.code,
            answer.body
        );
    }
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    ensure!(web.post_raw(deep, None).await?.code == 422, "depth is bounded");
    let mut large = wish("1.29.0");
    large["labels"] = json!({"a": "x".repeat(2 * 1024 * 1024)});
    ensure!(web.post(&large, None).await?.code == 413, "size is bounded");
    ensure!(web.bundles().await?.is_empty(), "nothing was created");
    Ok(())
}

#[tokio::test]
async fn a_hundred_a_minute_for_each_pipeline() -> anyhow::Result<()> {
    let web = Web::start().await?;
    web.pipeline().await?;
    let flood = json!({"pipeline": "flood", "images": [{"repository": "r/my-app", "tag": "1"}]});
    let mut passed = 0;
    let refused = loop {
        // Requests of one second that differ in nothing would be copies.
        let answer = web.post(&flood, Some(&format!("run-{passed}"))).await?;
        if answer.code == 429 {
            break answer;
        }
        passed += 1;
        ensure!(answer.code == 422 && passed < 2000, "{passed}: {} {}", answer.code, answer.body);
    };
    ensure!(passed >= 100, "only {passed} passed");
    let seconds: u64 = refused.retry_after.context("it says when to come back")?.parse()?;
    ensure!((1..=60).contains(&seconds), "{seconds}");
    let other = web.post(&wish("1.29.0"), None).await?;
    ensure!(other.code == 201, "another Pipeline is not held: {} {}", other.code, other.body);
    Ok(())
}
