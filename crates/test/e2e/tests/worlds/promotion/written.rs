//! What is wrong is told when an object is written, not when a Bundle arrives there.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kardinal_api::kardinal::{Pipeline, PolicyGate};
use kardinal_promotion::pipeline::SECRETS_FOUND;
use kardinal_promotion::policy_gate::{GUARDS, READY};
use kardinal_testkit::shop::{APP, POLICIES};
use kardinal_testkit::{Shop, World, in_three_worlds};
use kube::Api;
use serde_json::{Value, json};

use super::words::{KARDINAL, pipeline};

in_three_worlds!(promotions: a_gate_that_guards_nothing_is_told_when_it_is_written);
in_three_worlds!(promotions: a_task_that_nobody_knows_is_told_when_the_pipeline_is_written);
in_three_worlds!(promotions: a_secret_that_does_not_exist_is_told_when_the_pipeline_is_written);

/// A gate for these environments.
fn gate(name: &str, scope: &str, environments: &[&str]) -> Value {
    json!({
        "apiVersion": KARDINAL, "kind": "PolicyGate",
        "metadata": {"name": name, "labels": {"kardinal.io/scope": scope, "kardinal.io/type": "gate"}},
        "spec": {"expression": "true", "appliesTo": environments},
    })
}

/// Waits until a condition of these says something with a text in it.
async fn is_told(
    world: &World,
    what: &str,
    (type_, status, text): (&str, &str, &str),
    conditions: impl AsyncFn() -> anyhow::Result<Vec<Condition>>,
) -> anyhow::Result<()> {
    world
        .eventually(&format!("{what} has {type_}={status} with `{text}`"), async || {
            let all = conditions().await?;
            let is_right =
                |one: &Condition| one.type_ == type_ && one.status == status && one.message.contains(text);
            Ok(if all.iter().any(is_right) { Ok(()) } else { Err(format!("{all:?}")) })
        })
        .await
}

async fn of_pipeline(shop: &Shop<'_>, wanted: (&str, &str, &str)) -> anyhow::Result<()> {
    let world = shop.story.world;
    let api: Api<Pipeline> = Api::namespaced(world.client.clone(), &world.namespace);
    let conditions = async || Ok(api.get(APP).await?.status.unwrap_or_default().conditions);
    is_told(world, "the Pipeline", wanted, conditions).await
}

async fn a_gate_that_guards_nothing_is_told_when_it_is_written(world: &World) -> anyhow::Result<()> {
    let shop = Shop::open(world, &["dev"]).await?;
    shop.pipeline(pipeline(json!([{"name": "dev"}]))).await?;
    let nameless = "name environments in `spec.appliesTo`";
    let lost = "no environment of any Pipeline is meant by `nowhere`";
    let cases: [(&str, &[&str], &str, &str); 3] = [
        ("nameless", &[], "False", nameless),
        ("lost", &["nowhere"], "False", lost),
        ("found", &["nowhere", "dev"], "True", "an environment is guarded"),
    ];
    for (name, environments, status, text) in cases {
        shop.org_manifest(&gate(name, "org", environments)).await?;
        shop.story.apply(&gate(name, "team", environments)).await?;
        for namespace in [POLICIES, &world.namespace] {
            let api: Api<PolicyGate> = Api::namespaced(world.client.clone(), namespace);
            let conditions = async || Ok(api.get(name).await?.status.unwrap_or_default().conditions);
            let what = format!("the gate `{namespace}/{name}`");
            is_told(world, &what, (GUARDS, status, text), conditions).await?;
        }
    }
    shop.told("GuardsNothing", nameless).await?;
    shop.close().await
}

async fn a_task_that_nobody_knows_is_told_when_the_pipeline_is_written(world: &World) -> anyhow::Result<()> {
    let shop = Shop::open(world, &["dev"]).await?;
    let with = |edit: &str| {
        let uses = ["git-clone", edit, "git-commit", "git-push", "health-check"];
        let tasks: Vec<Value> = uses.iter().map(|uses| json!({"uses": uses})).collect();
        pipeline(json!([{"name": "dev", "steps": tasks}]))
    };
    shop.pipeline(with("kustomise-set-image")).await?;
    let text = "spec.environments[0].steps[1]: steps[1]: `kustomise-set-image` is not a built-in task";
    of_pipeline(&shop, (READY, "False", text)).await?;
    shop.told("ValidationFailed", text).await?;
    shop.pipeline(with("kustomize-set-image")).await?;
    of_pipeline(&shop, (READY, "True", "dev")).await?;
    shop.close().await
}

async fn a_secret_that_does_not_exist_is_told_when_the_pipeline_is_written(
    world: &World,
) -> anyhow::Result<()> {
    let shop = Shop::open(world, &["dev"]).await?;
    let mut manifest = pipeline(json!([{"name": "dev"}]));
    manifest["spec"]["git"]["secretRef"] = json!({"name": "forge"});
    shop.story.apply(&manifest).await?;
    let text = format!("the Secret `forge` does not exist in namespace `{}`", world.namespace);
    of_pipeline(&shop, (SECRETS_FOUND, "False", &text)).await?;
    shop.told("SecretMissing", &text).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "forge"}, "data": {}});
    shop.story.apply(&secret).await?;
    world.advance(SignedDuration::from_secs(31)).await;
    of_pipeline(&shop, (SECRETS_FOUND, "True", "all Secrets exist")).await?;
    shop.close().await
}
