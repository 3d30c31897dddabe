//! What a team writes as the name of a Secret: it becomes no request of another kind, and keeps nobody else waiting.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Namespace;
use kardinal_api::kardinal::Pipeline;
use kardinal_controllers::Settings;
use kardinal_testkit::requests::Fate;
use kardinal_testkit::shop::{APP, IMAGE};
use kardinal_testkit::world::{in_memory_overheard, promotions};
use kardinal_testkit::{Shop, World, apply};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

const KARDINAL: &str = "kardinal.io/v1alpha1";
const OTHERS: &str = "others";
/// In the place of a name the first two make a watch of a read, and the third leads out of the Secrets.
const BAD: [&str; 4] = ["?watch=true", "x?watch=true", "../x", "My Secret"];
/// Where a Pipeline of one environment names a Secret, and how its step calls the field.
const FIELDS: [(&str, &str, &str); 3] = [
    ("git", "spec.git.secretRef.name", "secretRef"),
    ("cluster", "spec.environments[0].health.cluster", "health.cluster"),
    ("task", "spec.environments[0].steps[0].config.secretRef.name", "secretRef"),
];

/// A Pipeline of one environment, which has the same name.
fn pipeline(name: &str, url: &str) -> Value {
    json!({
        "apiVersion": KARDINAL, "kind": "Pipeline", "metadata": {"name": name},
        "spec": {"git": {"url": url, "branch": "main", "provider": "local"}, "environments": [{"name": name}]},
    })
}

/// The same with the name of a Secret in a field.
fn naming(place: &str, mut pipeline: Value, secret: &str) -> Value {
    let reference = json!({"name": secret});
    match place {
        "git" => pipeline["spec"]["git"]["secretRef"] = reference,
        "cluster" => {
            pipeline["spec"]["environments"][0]["health"] = json!({"type": "resource", "cluster": secret});
        }
        _ => {
            let ask =
                json!({"uses": "ask", "config": {"url": "https://ci.example.com", "secretRef": reference}});
            let others = ["git-clone", "kustomize-set-image", "git-commit", "git-push", "health-check"];
            let tasks = others.iter().map(|name| json!({"uses": name}));
            pipeline["spec"]["environments"][0]["steps"] = std::iter::once(ask).chain(tasks).collect();
        }
    }
    pipeline
}

fn bundle(pipeline: &str) -> Value {
    json!({
        "apiVersion": KARDINAL, "kind": "Bundle",
        "metadata": {"name": format!("{pipeline}-v1"), "labels": {"kardinal.io/pipeline": pipeline}},
        "spec": {"artifacts": {"images": [{"name": APP, "reference": format!("{IMAGE}:1.29.0")}]}},
    })
}

/// A Pipeline of another team, whose Secret does not exist: waits until that is told.
async fn others_are_told(world: &World) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(OTHERS.to_owned());
    namespaces.create(&PostParams::default(), &namespace).await?;
    let manifest = naming("git", pipeline("theirs", "https://git.example/gitops"), "token");
    apply(&world.client, OTHERS, &manifest).await?;
    let says = condition(world, OTHERS, "theirs", "SecretsFound").await?;
    ensure!(says.contains("the Secret `token` does not exist"), "{says}");
    Ok(())
}

/// Waits for a condition of a Pipeline, and tells its message.
async fn condition(world: &World, namespace: &str, name: &str, type_: &str) -> anyhow::Result<String> {
    let api: Api<Pipeline> = Api::namespaced(world.client.clone(), namespace);
    world
        .eventually(&format!("the Pipeline `{namespace}/{name}` has {type_}"), async || {
            let status = api.get(name).await?.status.unwrap_or_default();
            let told = status.conditions.iter().find(|one| one.type_ == type_);
            Ok(told.map(|one| one.message.clone()).ok_or_else(|| format!("{:?}", status.conditions)))
        })
        .await
}

#[test]
fn what_cannot_be_the_name_of_a_secret_becomes_no_request_and_is_told() -> anyhow::Result<()> {
    in_memory_overheard(promotions(), async |world, requests| {
        let cases =
            FIELDS.iter().flat_map(|field| BAD.iter().enumerate().map(move |(at, bad)| (field, at, bad)));
        let cases: Vec<(String, &(&str, &str, &str), &str)> =
            cases.map(|(field, at, bad)| (format!("{}-{at}", field.0), field, *bad)).collect();
        let names: Vec<&str> = cases.iter().map(|(name, ..)| name.as_str()).collect();
        let shop = Shop::open(world, &names).await?;
        for (name, (place, ..), bad) in &cases {
            let manifest = naming(place, pipeline(name, &shop.url(&shop.repository)), bad);
            shop.story.apply(&manifest).await?;
        }
        others_are_told(world).await?;
        for (name, (_, field, _), bad) in &cases {
            let says = condition(world, &world.namespace, name, "Ready").await?;
            let wanted = format!("{field}: `{bad}` is not a name (use lower case letters");
            ensure!(says.starts_with(&wanted), "{name}: {says}");
        }
        for (name, ..) in &cases {
            shop.story.apply(&bundle(name)).await?;
        }
        for (name, (_, _, field), bad) in &cases {
            let wanted = format!("{field}: `{bad}` is not a name");
            let says = |step: &kardinal_api::kardinal::PromotionStep| {
                step.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default()
            };
            shop.step(&format!("{name}-v1"), name, &wanted, |step| says(step).contains(&wanted)).await?;
        }
        let heard = requests.take();
        let own = format!("/namespaces/{}/secrets", world.namespace);
        let made: Vec<&String> = heard.iter().filter(|heard| heard.contains(&own)).collect();
        ensure!(made.is_empty(), "{made:#?}");
        let others = format!("GET /api/v1/namespaces/{OTHERS}/secrets/token");
        ensure!(heard.contains(&others), "requests for Secrets are overheard");
        shop.close().await
    })
}

#[test]
fn one_team_whose_secrets_are_never_answered_cannot_stop_the_pipelines_of_another() -> anyhow::Result<()> {
    let settings = Settings { concurrency: 1, ..promotions() };
    in_memory_overheard(settings, async |world, requests| {
        let noisy = format!("/namespaces/{}/secrets", world.namespace);
        requests.judged_by(move |heard| if heard.what.contains(&noisy) { Fate::Silent } else { Fate::Pass });
        for at in 0..8 {
            let manifest = pipeline(&format!("noisy-{at}"), "https://git.example/gitops");
            apply(&world.client, &world.namespace, &naming("git", manifest, "token")).await?;
        }
        world
            .eventually("one of them waits", async || {
                let heard = requests.take();
                let waits = heard.iter().any(|heard| heard.contains("/secrets/token"));
                Ok(if waits { Ok(()) } else { Err(format!("{heard:?}")) })
            })
            .await?;
        others_are_told(world).await
    })
}
