//! The port of the web side: who is turned away, and when.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, ensure};

use super::{Web, ci_headers, now, signature};

#[tokio::test]
async fn unsigned_bodies_are_refused_before_they_are_read() -> anyhow::Result<()> {
    let web = Web::start().await?;
    // The body never comes, so an answer tells that nobody waits for it.
    let head = |path: &str, more: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n{more}\r\n")
    };
    for (path, more) in [
        ("/webhooks", ""),
        ("/webhooks", "X-Hub-Signature-256: \r\n"),
        ("/webhooks", "X-Hub-Signature-256: sha256=nothex\r\n"),
        ("/api/v1/bundles", ""),
        ("/api/v1/bundles", "Authorization: Bearer x\r\n"),
        ("/api/v1/bundles", "Authorization: Bearer x\r\nX-Kardinal-Timestamp: 1\r\n"),
    ] {
        let said = web.raw(&head(path, more)).await?;
        ensure!(said.starts_with("HTTP/1.1 401 "), "{path} {more}: {said}");
    }
    // One that is signed, but announces too much, is not read either.
    let large = "POST /webhooks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 99999999\r\n\
                 X-Hub-Signature-256: sha256=00\r\n\r\n";
    let said = web.raw(large).await?;
    ensure!(said.starts_with("HTTP/1.1 413 "), "{said}");
    Ok(())
}

/// Nothing here says how long it takes: the server itself ends what nobody else would.
#[tokio::test]
async fn a_body_that_stops_arriving_is_given_up_and_keeps_nobody_waiting() -> anyhow::Result<()> {
    let web = Web::start().await?;
    let secret = web.key("webhook-secret")?;
    let (token, key) = (web.key("api-token")?, web.key("api-signing-key")?);
    let begun = [b'x'; 10];
    let announced = |path: &str, headers: &[(&str, String)]| {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n{headers}\r\n{}",
            String::from_utf8_lossy(&begun)
        )
    };
    let signed = [("X-Hub-Signature-256", signature(&secret, &begun)?)];
    let hook = announced("/webhooks", &signed);
    let wish = announced("/api/v1/bundles", &ci_headers(&token, &key, now(), None, &begun)?);
    let others = async { web.get("/healthz", None).await };
    let (hook, wish, others) = tokio::try_join!(web.raw(&hook), web.raw(&wish), others)?;
    for said in [hook, wish] {
        ensure!(said.starts_with("HTTP/1.1 408 ") && said.contains("too slowly"), "{said}");
    }
    ensure!(others.0 == 200, "{others:?}");
    Ok(())
}

#[tokio::test]
async fn a_foreign_host_that_leads_here_is_turned_away() -> anyhow::Result<()> {
    let web = Web::start().await?;
    let ask =
        |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    for path in ["/metrics", "/forge/default/demo/pulls/1", "/nowhere"] {
        let said = web.raw(&ask(path, "evil.example.com:8440")).await?;
        ensure!(said.starts_with("HTTP/1.1 421 "), "{path}: {said}");
        for host in ["127.0.0.1:8440", "localhost", "[::1]:8440"] {
            let said = web.raw(&ask(path, host)).await?;
            ensure!(!said.starts_with("HTTP/1.1 421 "), "{path} {host}: {said}");
        }
    }
    let said = web.raw(&ask("/healthz", "kardinal.team.svc")).await?;
    ensure!(said.starts_with("HTTP/1.1 200 "), "probes come under any name: {said}");
    Ok(())
}

#[tokio::test]
async fn the_ci_token_opens_no_repository() -> anyhow::Result<()> {
    let web = Web::start().await?;
    let refs = "/git/default/gitops.git/info/refs?service=git-receive-pack";
    ensure!(web.get(refs, Some(&web.key("api-token")?)).await?.0 == 401, "CI cannot push");
    ensure!(
        web.get(refs, Some(&web.key("git-token")?)).await?.0 == 404,
        "the owner is told that it is not there"
    );
    let body = b"{}".to_vec();
    let headers = ci_headers(&web.key("git-token")?, &web.key("api-signing-key")?, now(), None, &body)?;
    ensure!(web.send(body, &headers).await?.code == 401, "and the token of Git makes no Bundles");
    Ok(())
}

#[tokio::test]
async fn the_data_directory_is_for_its_owner_only() -> anyhow::Result<()> {
    let web = Web::start().await?;
    let mode = |path: &std::path::Path| anyhow::Ok(std::fs::metadata(path)?.permissions().mode() & 0o777);
    for folder in ["", "repositories", "git-cache", "pki"] {
        let found = mode(&web.dir.join(folder)).with_context(|| format!("no `{folder}`"))?;
        ensure!(found == 0o700, "`{folder}` has {found:o}");
    }
    for file in ["kubeconfig", "api-token", "api-signing-key", "git-token", "webhook-secret", "lock"] {
        let found = mode(&web.dir.join(file)).with_context(|| format!("no `{file}`"))?;
        ensure!(found == 0o600, "`{file}` has {found:o}");
    }
    Ok(())
}
