//! `POST /webhooks`.

use anyhow::ensure;
use serde_json::json;

use super::{Web, signature};

const EVENT: &str = "X-GitHub-Event";
const DELIVERY: &str = "X-GitHub-Delivery";
const SIGNATURE: &str = "X-Hub-Signature-256";

impl Web {
    async fn deliver(&self, body: &[u8], headers: &[(&str, &str)]) -> anyhow::Result<(u16, String)> {
        let mut request = self.http.post(format!("{}/webhooks", self.url)).body(body.to_vec());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }
}

#[tokio::test]
async fn deliveries_are_proved_and_heard_once() -> anyhow::Result<()> {
    let web = Web::start().await?;
    let body = json!({
        "action": "closed",
        "number": 3,
        "pull_request": {"number": 3, "merged": true},
        "repository": {"clone_url": "https://github.com/myorg/gitops.git", "html_url": "https://github.com/myorg/gitops"},
    })
    .to_string();
    let body = body.as_bytes();
    let signed = signature(&web.key("webhook-secret")?, body)?;
    let event = (EVENT, "pull_request");
    let first = (DELIVERY, "one");

    let (code, said) = web.deliver(body, &[event, first]).await?;
    ensure!(code == 401 && said.contains("not signed"), "{code} {said}");
    let forged = signature("another secret", body)?;
    let (code, said) = web.deliver(body, &[event, first, (SIGNATURE, &forged)]).await?;
    ensure!(code == 401 && said.contains("signature is wrong"), "{code} {said}");
    let (code, said) = web.deliver(b"{}", &[event, first, (SIGNATURE, &signed)]).await?;
    ensure!(code == 401, "another body: {code} {said}");
    // The keys of CI do not open this door.
    let ci = signature(&web.key("api-signing-key")?, body)?;
    ensure!(web.deliver(body, &[event, first, (SIGNATURE, &ci)]).await?.0 == 401);
    let (code, said) = web.deliver(body, &[(SIGNATURE, &signed)]).await?;
    ensure!(code == 400, "signed, but no event: {code} {said}");

    let (code, said) = web.deliver(body, &[event, first, (SIGNATURE, &signed)]).await?;
    ensure!(code == 202, "{code} {said}");
    for delivery in [first, (DELIVERY, "two")] {
        let (code, said) = web.deliver(body, &[event, delivery, (SIGNATURE, &signed)]).await?;
        ensure!(code == 200 && said.contains("seen before"), "a replay: {code} {said}");
    }
    let large = vec![b'x'; 6 * 1024 * 1024];
    let signed = signature(&web.key("webhook-secret")?, &large)?;
    ensure!(web.deliver(&large, &[event, (DELIVERY, "three"), (SIGNATURE, &signed)]).await?.0 == 413);

    let (_, metrics) = web.get("/metrics", None).await?;
    for (reason, times) in [("unsigned", 1), ("bad-signature", 3), ("malformed", 1), ("too-large", 1)] {
        let sample = format!("kardinal_webhooks_rejected_total{{reason=\"{reason}\"}} {times}\n");
        ensure!(metrics.contains(&sample), "{sample}{metrics}");
    }
    Ok(())
}
