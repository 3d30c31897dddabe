//! The web side of `kardinal controller` on a real Kubernetes.

use anyhow::ensure;
use kardinal_testkit::child::free_port;
use kardinal_testkit::world::real_kubeconfig;

use super::{METRICS, ci_headers, client, eventually, now};
use kardinal_testkit::process::Process;

#[tokio::test]
async fn on_real_kubernetes() -> anyhow::Result<()> {
    let Some(kubeconfig) = tokio::task::spawn_blocking(real_kubeconfig).await?? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let address = format!("127.0.0.1:{}", free_port()?);
    let kubeconfig = kubeconfig.display().to_string();
    let cache = folder.path().join("cache").display().to_string();
    let arguments =
        ["controller", "--kubeconfig", &kubeconfig, "--http", &address, "--git-cache-dir", &cache];
    let keys = [
        ("KARDINAL_API_TOKEN", "a token"),
        ("KARDINAL_API_SIGNING_KEY", "a key"),
        ("KARDINAL_WEBHOOK_SECRET", "a secret"),
    ];
    let mut controller = Process::start(folder.path(), "log", &arguments, &keys)?;
    controller.wait_for("it serves", |said| said.contains("web side listens").then_some(()))?;
    let http = client()?;
    let url = |path: &str| format!("http://{address}{path}");
    eventually("it is ready", async || {
        Ok(http.get(url("/readyz")).send().await?.status().is_success().then_some(()))
    })
    .await?;
    let metrics = http.get(url("/metrics")).send().await?.text().await?;
    ensure!(METRICS.iter().all(|name| metrics.contains(name)), "{metrics}");

    let body = r#"{"pipeline": "nobody", "images": [{"repository": "r/my-app", "tag": "1"}]}"#;
    for (token, key, code) in
        [("a token", "a key", 422), ("a token", "another", 401), ("another", "a key", 401)]
    {
        let mut request = http.post(url("/api/v1/bundles")).body(body);
        for (name, value) in ci_headers(token, key, now(), None, body.as_bytes())? {
            request = request.header(name, value);
        }
        let answer = request.send().await?;
        let found = answer.status().as_u16();
        ensure!(found == code, "{token}, {key}: {found} {}", answer.text().await?);
    }
    ensure!(
        http.get(url("/git/default/x.git/info/refs")).send().await?.status().as_u16() == 404,
        "no forge here"
    );
    ensure!(!controller.printed().contains("a token"), "no secret is logged: {}", controller.printed());
    ensure!(controller.terminate()?.success(), "SIGTERM ends it well");
    Ok(())
}
