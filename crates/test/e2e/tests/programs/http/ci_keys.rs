//! CI tokens of namespaces and Pipelines, and names that CI sends.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::bundles::wish;
use super::{Web, ci_headers, eventually, now};

const NEW: (&str, &str) = ("team-token-0123456789", "team-key-0123456789");
const OLD: (&str, &str) = ("former-token-0123456789", "former-key-0123456789");

impl Web {
    async fn secret(&self, namespace: &str, name: &str, keys: &[(&str, &str)]) -> anyhow::Result<()> {
        let api: Api<Secret> = Api::namespaced(self.kube.clone(), namespace);
        let data: serde_json::Map<_, _> =
            keys.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "labels": {"kardinal.io/ci-token": "true"}},
            "stringData": data,
        });
        // A key that is gone must go.
        if api.get_opt(name).await?.is_some() {
            api.delete(name, &kube::api::DeleteParams::default()).await?;
        }
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(secret)).await?;
        Ok(())
    }

    /// Asks for a Bundle with a pair of keys; says how it was answered.
    async fn with(&self, keys: (&str, &str), namespace: &str, run: &str) -> anyhow::Result<u16> {
        let mut body = wish("1.29.0");
        body["namespace"] = json!(namespace);
        let body = body.to_string().into_bytes();
        let headers = ci_headers(keys.0, keys.1, now(), Some(run), &body)?;
        Ok(self.send(body, &headers).await?.code)
    }
}

#[tokio::test]
async fn ci_tokens_hold_in_their_namespace_and_can_be_rotated() -> anyhow::Result<()> {
    let web = Web::start().await?;
    web.pipeline().await?;
    let namespaces: Api<Namespace> = Api::all(web.kube.clone());
    let team = serde_json::from_value(json!({"metadata": {"name": "team-a"}}))?;
    namespaces.create(&PostParams::default(), &team).await?;
    ensure!(web.with(NEW, "default", "none").await? == 401, "there is no Secret yet");

    // A pair in one namespace is none in another: 422 tells that the caller got in, and that no Pipeline is there.
    web.secret("team-a", "kardinal-ci", &[("token", NEW.0), ("signing-key", NEW.1)]).await?;
    eventually("the team's token is known", async || {
        Ok((web.with(NEW, "team-a", "one").await? == 422).then_some(()))
    })
    .await?;
    ensure!(web.with(NEW, "default", "two").await? == 401, "another namespace");
    ensure!(web.with((NEW.0, OLD.1), "team-a", "three").await? == 401, "another key");

    // Both pairs hold while they are replaced, and the former ends with its entry.
    let both = [
        ("token", NEW.0),
        ("signing-key", NEW.1),
        ("previous-token", OLD.0),
        ("previous-signing-key", OLD.1),
    ];
    web.secret("default", "kardinal-ci-my-app", &both).await?;
    eventually("both are known", async || {
        let codes = (web.with(NEW, "default", "four").await?, web.with(OLD, "default", "five").await?);
        Ok((codes.0 < 300 && codes.1 < 300).then_some(()))
    })
    .await?;
    web.secret("default", "kardinal-ci-my-app", &both[..2]).await?;
    eventually("the former is refused", async || {
        // Those that are let in count against the Pipeline's requests of a minute.
        tokio::time::sleep(Duration::from_millis(250)).await;
        Ok((web.with(OLD, "default", "six").await? == 401).then_some(()))
    })
    .await?;
    ensure!(web.with(NEW, "default", "seven").await? < 300);

    // A Pipeline's token is for no other Pipeline.
    let mut body = wish("1.29.0");
    body["pipeline"] = json!("other");
    let body = body.to_string().into_bytes();
    let headers = ci_headers(NEW.0, NEW.1, now(), None, &body)?;
    ensure!(web.send(body, &headers).await?.code == 401);
    Ok(())
}

#[tokio::test]
async fn names_from_bodies_and_urls_never_leave_their_place_in_a_path() -> anyhow::Result<()> {
    let web = Web::start().await?;
    web.pipeline().await?;
    for (field, name) in [
        ("pipeline", "my-app?watch=true"),
        ("pipeline", "my-app#"),
        ("pipeline", "../pipelines/my-app"),
        ("pipeline", "my-app%3f"),
        ("pipeline", "MY-APP"),
        ("namespace", "default/pipelines/my-app?watch=true#"),
        ("namespace", ".."),
        ("namespace", "default "),
    ] {
        let mut body = wish("1.29.0");
        body[field] = json!(name);
        let answer = web.post(&body, None).await?;
        ensure!(answer.code == 422 && answer.fields() == [field], "{name}: {} {}", answer.code, answer.body);
    }
    ensure!(web.bundles().await?.is_empty(), "nothing was created");
    let token = web.key("git-token")?;
    for path in [
        "/forge/default/demo%3Fwatch=true/pulls/1",
        "/forge/..%2F..%2Fnodes/demo/pulls/1",
        "/forge/default%2Fpods/demo/pulls/1",
        "/forge/default/demo,spec.head=x/pulls/1",
    ] {
        for path in [path.to_owned(), format!("{path}/diff")] {
            let (code, said) = web.get(&path, Some(&token)).await?;
            ensure!(code == 404 && said.contains("is not"), "{path}: {code} {said}");
        }
    }
    // The rate limit counts names, of which there is one spelling.
    web.post(&wish("1.29.0"), Some("run")).await?.body["name"].as_str().context("a name")?;
    Ok(())
}
