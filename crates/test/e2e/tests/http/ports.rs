//! The port of the web side: who is turned away, and when.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Web, ci_headers, now};

impl Web {
    /// Sends bytes as they are and reads until the server closes.
    async fn raw(&self, request: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut said = Vec::new();
        // A server that does not read on may reset the connection behind its answer.
        let _ = stream.read_to_end(&mut said).await;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

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
