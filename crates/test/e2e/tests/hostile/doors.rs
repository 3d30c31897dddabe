//! Every door of one `kardinal up`, tried by somebody without its key. What else is behind each of them is tested where the
//! door is; here one process stands all of it, one after the other.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use kardinal_api::forge::{PullRequest, Repository};
use kardinal_testkit::shop::git;
use kardinal_testkit::up::binary;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::web::{Web, ci_headers, eventually, now};

const FORGE: &str = "forge.kardinal.io/v1alpha1";

#[tokio::test]
async fn no_door_opens_to_somebody_without_its_key() -> anyhow::Result<()> {
    let web = Web::start().await?;
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    nobody_acts_as_another_user(&web).await.context("impersonation")?;
    a_stranger_name_leads_nowhere(&web).await.context("rebinding")?;
    an_unsigned_webhook_is_not_heard(&web).await.context("webhooks")?;
    ci_makes_bundles_and_nothing_else(&web).await.context("CI")?;
    let url = only_the_owner_pushes(&web, folder).await.context("Git")?;
    a_page_tells_nothing_before_the_sign_in(&web, folder, &url).await.context("pages")?;
    a_kubeconfig_in_a_folder_runs_nothing(&web, folder).context("a kubeconfig that lies about")?;
    ensure!(web.get("/healthz", None).await?.0 == 200, "it goes on answering");
    Ok(())
}

async fn nobody_acts_as_another_user(web: &Web) -> anyhow::Result<()> {
    for (name, value) in [
        ("Impersonate-User", "system:admin"),
        ("Impersonate-Group", "system:masters"),
        ("Impersonate-Uid", "1"),
        ("Impersonate-Extra-Scopes", "all"),
    ] {
        let request = http::Request::get("/api/v1/namespaces/default/secrets").header(name, value);
        let answer = web.kube.send(request.body(kube::client::Body::empty())?).await?;
        ensure!(answer.status() == 403, "{name}: {}", answer.status());
        let said = answer.into_body().collect_bytes().await?;
        ensure!(String::from_utf8_lossy(&said).contains("impersonation is not possible"), "{name}: {said:?}");
    }
    Ok(())
}

/// A page of a stranger's has its name lead to this machine.
async fn a_stranger_name_leads_nowhere(web: &Web) -> anyhow::Result<()> {
    for path in ["/metrics", "/forge/default/gitops/pulls/1"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: evil.example.com\r\nConnection: close\r\n\r\n");
        let said = web.raw(&request).await?;
        ensure!(said.starts_with("HTTP/1.1 421 "), "{path}: {said}");
    }
    Ok(())
}

async fn an_unsigned_webhook_is_not_heard(web: &Web) -> anyhow::Result<()> {
    for signature in ["", "X-Hub-Signature-256: sha256=00\r\n"] {
        let said = web
            .raw(&format!(
                "POST /webhooks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-GitHub-Event: push\r\n\
                 X-GitHub-Delivery: one\r\n{signature}Content-Length: 2\r\n\r\n{{}}"
            ))
            .await?;
        ensure!(said.starts_with("HTTP/1.1 401 "), "{signature}: {said}");
    }
    Ok(())
}

/// Sends what CI sends; says how it was answered.
async fn wish(web: &Web, body: &[u8], headers: &[(&str, String)]) -> anyhow::Result<(u16, String)> {
    let mut request = web.http.post(format!("{}/api/v1/bundles", web.url)).body(body.to_vec());
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = request.send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

async fn ci_makes_bundles_and_nothing_else(web: &Web) -> anyhow::Result<()> {
    web.apply(&json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "my-app"},
        "spec": {
            "paused": true,
            "git": {"url": format!("{}/git/default/gitops.git", web.url), "provider": "local"},
            "environments": [{"name": "dev"}],
        },
    }))
    .await?;
    let (token, key) = (web.key("api-token")?, web.key("api-signing-key")?);
    let body = |pipeline: &str| {
        let image = json!({"repository": "ghcr.io/myorg/my-app", "tag": "1.29.0"});
        json!({"pipeline": pipeline, "images": [image]}).to_string().into_bytes()
    };
    for name in ["my-app?watch=true", "../pipelines/my-app", "my-app#"] {
        let body = body(name);
        let (code, said) = wish(web, &body, &ci_headers(&token, &key, now(), None, &body)?).await?;
        let said: Value = serde_json::from_str(&said)?;
        ensure!(code == 422 && said.pointer("/errors/0/field") == Some(&json!("pipeline")), "{name}: {said}");
    }
    let body = body("my-app");
    let foreign = ci_headers(&web.key("git-token")?, &key, now(), None, &body)?;
    ensure!(wish(web, &body, &foreign).await?.0 == 401, "the token of Git is none of CI");
    let good = ci_headers(&token, &key, now(), None, &body)?;
    let (code, said) = wish(web, &body, &good).await?;
    ensure!(code == 201, "{code} {said}");
    let (code, said) = wish(web, &body, &good).await?;
    ensure!(code == 409, "what was overheard is not taken again: {code} {said}");
    Ok(())
}

/// Pushes two branches; the URL for whoever has the token.
async fn only_the_owner_pushes(web: &Web, folder: &Path) -> anyhow::Result<String> {
    let repository =
        json!({"apiVersion": FORGE, "kind": "Repository", "metadata": {"name": "gitops"}, "spec": {}});
    web.apply(&repository).await?;
    let api: Api<Repository> = Api::namespaced(web.kube.clone(), "default");
    let url = eventually("the repository is served", async || {
        Ok(api.get("gitops").await?.status.and_then(|status| status.clone_url))
    })
    .await?;
    let with = |token: &str| url.replace("http://", &format!("http://ci:{token}@"));
    let work = folder.join("work");
    git(folder, &["init", "--quiet", "--initial-branch=main", "work"])?;
    git(&work, &["commit", "--quiet", "--allow-empty", "-m", "one"])?;
    for token in [web.key("api-token")?, web.key("webhook-secret")?, "guessed".to_owned()] {
        ensure!(git(&work, &["push", &with(&token), "main"]).is_err(), "a push with a foreign token");
    }
    let own = with(&web.key("git-token")?);
    ensure!(git(&work, &["ls-remote", &own])?.is_empty(), "nothing was pushed");
    git(&work, &["push", "--quiet", &own, "main"])?;
    Ok(own)
}

async fn a_page_tells_nothing_before_the_sign_in(web: &Web, folder: &Path, url: &str) -> anyhow::Result<()> {
    let work = folder.join("work");
    std::fs::write(work.join("file"), "what nobody may see\n")?;
    git(&work, &["add", "."])?;
    git(&work, &["commit", "--quiet", "-m", "two"])?;
    git(&work, &["push", "--quiet", url, "HEAD:change"])?;
    web.apply(&json!({
        "apiVersion": FORGE, "kind": "PullRequest", "metadata": {"name": "change"},
        "spec": {"repository": "gitops", "head": "change", "base": "main", "title": "A title", "body": "A body"},
    }))
    .await?;
    let api: Api<PullRequest> = Api::namespaced(web.kube.clone(), "default");
    let page = eventually("the pull request has a page", async || {
        let found = api.list(&ListParams::default()).await?.items.into_iter().next();
        Ok(found.and_then(|request| request.status).and_then(|status| status.url))
    })
    .await?;
    let path = page.strip_prefix(&web.url).context("the page is on the web side")?;
    let (code, said) = web.get(path, Some(&web.key("git-token")?)).await?;
    ensure!(code == 200 && said.contains("A title"), "its owner sees it: {code} {said}");
    for (path, token) in [
        (path.to_owned(), None),
        (path.to_owned(), Some(web.key("api-token")?)),
        (format!("{path}?code=guessed"), None),
        (format!("{path}/diff"), None),
    ] {
        let (code, said) = web.get(&path, token.as_deref()).await?;
        ensure!(code == 401, "{path}: {code}");
        for secret in ["A title", "A body", "what nobody may see"] {
            ensure!(!said.contains(secret), "{path}: {said}");
        }
    }
    let (_, said) = web.get(path, None).await?;
    ensure!(said.contains("<h1>Sign in</h1>") && said.contains("kardinal pr open 1 --repo gitops"), "{said}");
    Ok(())
}

/// The folder is a stranger's, and leads to a server that is really there.
fn a_kubeconfig_in_a_folder_runs_nothing(web: &Web, folder: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(web.dir.join("kubeconfig"))?;
    let mut config: Value = serde_saphyr::from_str(&text)?;
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "touch", "args": ["run"],
    }});
    let trap = folder.join("trap");
    std::fs::create_dir_all(trap.join(".kardinal"))?;
    let file = trap.join(".kardinal/kubeconfig");
    std::fs::write(&file, config.to_string())?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600))?;
    let mut command = Command::new(binary()?);
    command.args(["get", "pipelines"]).current_dir(&trap).env("HOME", &trap);
    let output = command.env_remove("KUBECONFIG").env_remove("KARDINAL_DATA_DIR").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(4), "{:?}: {said}", output.status);
    for part in ["is not trusted: it uses `exec`", "name it: `--kubeconfig .kardinal/kubeconfig`"] {
        ensure!(said.contains(part), "`{part}` is missing in: {said}");
    }
    ensure!(!trap.join("run").exists(), "nothing was run");
    Ok(())
}
