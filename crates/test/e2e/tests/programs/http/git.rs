//! Real git and a browser at the local forge.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, ensure};
use kardinal_api::forge::{PullRequest, Repository};
use kube::Api;
use serde_json::json;

use super::{Web, eventually};

fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(arguments);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder).env("GIT_TERMINAL_PROMPT", "0");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "alice").env(format!("GIT_{who}_EMAIL"), "alice@example.org");
    }
    Ok(command.output()?)
}

fn well(folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let output = git(folder, arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {said}", arguments.join(" "));
    Ok(())
}

fn refused(folder: &Path, arguments: &[&str], part: &str) -> anyhow::Result<()> {
    let output = git(folder, arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && said.contains(part), "git {}: {said}", arguments.join(" "));
    Ok(())
}

#[tokio::test]
async fn people_push_and_the_pages_of_pull_requests_need_a_token() -> anyhow::Result<()> {
    let web = Web::start().await?;
    let token = web.key("git-token")?;
    let repository = |protected: &[&str]| {
        json!({
            "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "Repository", "metadata": {"name": "gitops"},
            "spec": {"protectedBranches": protected},
        })
    };
    web.apply(&repository(&[])).await?;
    let api: Api<Repository> = Api::namespaced(web.kube.clone(), "default");
    let url = eventually("the repository is served", async || {
        Ok(api.get("gitops").await?.status.and_then(|status| status.clone_url))
    })
    .await?;
    ensure!(url == format!("{}/git/default/gitops.git", web.url), "{url}");

    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let with = |token: &str| url.replace("http://", &format!("http://alice:{token}@"));
    refused(folder, &["clone", &url, "without"], "")?;
    refused(folder, &["clone", &with("wrong"), "wrong"], "")?;
    well(folder, &["clone", "--quiet", &with(&token), "work"])?;
    let work = folder.join("work");
    std::fs::write(work.join("file"), "one\n")?;
    well(&work, &["checkout", "--quiet", "-b", "main"])?;
    well(&work, &["add", "."])?;
    well(&work, &["commit", "--quiet", "-m", "one"])?;
    well(&work, &["push", "--quiet", "origin", "main"])?;
    eventually("the push is seen", async || {
        Ok(api.get("gitops").await?.status.and_then(|status| status.head))
    })
    .await?;

    web.apply(&repository(&["main"])).await?;
    std::fs::write(work.join("file"), "two\n")?;
    well(&work, &["commit", "--quiet", "-am", "two"])?;
    // The protection is an object, and the forge hears of it a moment later.
    eventually("the branch is protected", async || {
        let refusal = git(&work, &["push", "origin", "HEAD:main"])?;
        let said = String::from_utf8_lossy(&refusal.stderr).into_owned();
        if refusal.status.success() {
            // It came too early; make another commit to try with.
            well(&work, &["commit", "--quiet", "--allow-empty", "-m", "again"])?;
            return Ok(None);
        }
        ensure!(said.contains("protected branch: open a pull request"), "{said}");
        Ok(Some(()))
    })
    .await?;
    refused(&work, &["push", "origin", ":main"], "protected branch: it cannot be deleted")?;
    std::fs::write(work.join("file"), "three\n")?;
    well(&work, &["commit", "--quiet", "-am", "three"])?;
    well(&work, &["push", "--quiet", "origin", "HEAD:change"])?;
    page(&web, &token).await
}

/// The page and the diff behind a pull request's URL.
async fn page(web: &Web, token: &str) -> anyhow::Result<()> {
    web.apply(&json!({
        "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "PullRequest", "metadata": {"name": "change"},
        "spec": {"repository": "gitops", "head": "change", "base": "main", "title": "A <b>change</b>", "body": "Because & so"},
    }))
    .await?;
    let api: Api<PullRequest> = Api::namespaced(web.kube.clone(), "default");
    let url = eventually("the pull request has a page", async || {
        Ok(api.get("change").await?.status.and_then(|status| status.url))
    })
    .await?;
    let path = url.strip_prefix(&web.url).context("the page is on the web side")?;
    ensure!(path == "/forge/default/gitops/pulls/1", "{path}");
    // Nobody reads it without a token, and nothing of it is told.
    for wrong in [None, Some("wrong"), Some(&*web.key("api-token")?)] {
        let (code, text) = web.get(path, wrong).await?;
        ensure!(code == 401 && text.contains("kardinal pr open 1 --repo gitops"), "{code} {text}");
        ensure!(!text.contains("change") && !text.contains("Because"), "{text}");
    }
    let (code, text) = web.get(path, Some(token)).await?;
    ensure!(
        code == 200 && text.contains("A &lt;b&gt;change") && text.contains("kardinal pr merge 1"),
        "{text}"
    );
    ensure!(text.contains("Because &amp; so") && text.contains("+three"), "{code} {text}");
    browser(web, path).await?;

    let diff = format!("{path}/diff");
    ensure!(web.get(&diff, None).await?.0 == 401);
    ensure!(web.get(&diff, Some("wrong")).await?.0 == 401);
    let (code, text) = web.get(&diff, Some(token)).await?;
    ensure!(
        code == 200 && text.contains("diff --git a/file b/file") && text.contains("+three"),
        "{code} {text}"
    );
    for missing in
        ["/forge/default/gitops/pulls/2", "/forge/default/other/pulls/1", "/forge/x/gitops/pulls/1"]
    {
        ensure!(web.get(missing, Some(token)).await?.0 == 404, "{missing}");
    }
    Ok(())
}

/// `kardinal pr open` signs a browser in: the code works once, the cookie after that.
async fn browser(web: &Web, path: &str) -> anyhow::Result<()> {
    let kubeconfig = web.dir.join("kubeconfig");
    let mut command = Command::new(kardinal_testkit::up::binary()?);
    command.args(["pr", "open", "1", "--repo", "gitops", "--print", "--kubeconfig"]).arg(&kubeconfig);
    let output = command.output()?;
    let printed = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let url = printed.trim();
    ensure!(url.starts_with(&format!("{}{path}?code=", web.url)), "{url}");
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
    let first = http.get(url).send().await?;
    ensure!(first.status() == 303, "{}", first.status());
    ensure!(first.headers()["location"] == path, "{:?}", first.headers());
    let cookie = first.headers()["set-cookie"].to_str()?.to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/forge"] {
        ensure!(cookie.contains(part), "{cookie}");
    }
    ensure!(http.get(url).send().await?.status() == 401, "the code works once");
    let session = cookie.split(';').next().unwrap_or_default();
    let page = http.get(format!("{}{path}", web.url)).header("cookie", session).send().await?;
    ensure!(page.status() == 200 && page.text().await?.contains("Because"), "signed in");
    let diff = http.get(format!("{}{path}/diff", web.url)).header("cookie", session).send().await?;
    ensure!(diff.status() == 401, "a browser reads pages and nothing else");
    Ok(())
}
