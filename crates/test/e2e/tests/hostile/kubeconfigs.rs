//! Kubeconfigs that tenants put into Secrets, for `health.cluster` to use.

use anyhow::ensure;
use kardinal_api::kardinal::PromotionStep;
use kardinal_testkit::Shop;
use kardinal_testkit::world::{in_memory, promotions};
use kube::Api;
use serde_json::{Value, json};

/// A Secret with a kubeconfig for this server and this user.
fn secret(name: &str, server: &str, user: &Value) -> Value {
    let config = json!({
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
    });
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": {"kubeconfig": config.to_string()},
    })
}

#[test]
fn a_secret_and_health_cluster_run_no_command_and_send_no_file_to_a_stranger() -> anyhow::Result<()> {
    in_memory(promotions(), async |world| {
        let dir = tempfile::tempdir()?;
        let (touched, file) = (dir.path().join("touched"), dir.path().join("token"));
        std::fs::write(&file, "of the controller")?;
        let stranger = std::net::TcpListener::bind("127.0.0.1:0")?;
        stranger.set_nonblocking(true)?;
        let server = format!("https://{}", stranger.local_addr()?);
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [&touched],
            "interactiveMode": "Never"});
        let attacks = [
            ("command", "exec", json!({"exec": exec})),
            ("provider", "auth-provider", json!({"auth-provider": {"name": "oidc", "config": {}}})),
            ("file", "tokenFile", json!({"tokenFile": &file})),
            ("key", "client-key", json!({"client-certificate-data": "QQ==", "client-key": &file})),
        ];
        let names: Vec<&str> = attacks.iter().map(|(name, ..)| *name).collect();
        let shop = Shop::open(world, &names).await?;
        let mut environments = Vec::new();
        for (name, _, user) in &attacks {
            shop.story.apply(&secret(name, &server, user)).await?;
            environments.push(
                json!({"name": name, "dependsOn": [], "health": {"type": "resource", "cluster": name}}),
            );
        }
        shop.pipeline(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "my-app"},
            "spec": {"git": {"url": "https://github.com/myorg/gitops-repo"}, "environments": environments},
        }))
        .await?;
        shop.release("my-app-v1", "1.29.0", json!({})).await?;
        let steps: Api<PromotionStep> = Api::namespaced(world.client.clone(), &world.namespace);
        for (name, field, _) in &attacks {
            let wanted = format!("`users[0].user.{field}` is not permitted");
            world
                .eventually(&format!("the Secret `{name}` is refused by name"), async || {
                    let all = steps.list(&kube::api::ListParams::default()).await?;
                    let step = all.items.into_iter().find(|step| step.spec.environment == *name);
                    let said = step.and_then(|step| step.status?.message).unwrap_or_default();
                    Ok(if said.contains(&wanted) { Ok(()) } else { Err(said) })
                })
                .await?;
        }
        ensure!(!touched.exists(), "the command of the Secret was run");
        ensure!(stranger.accept().is_err(), "the stranger was called");
        shop.close().await
    })
}
