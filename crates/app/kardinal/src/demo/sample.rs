//! The sample application and the organisation's gates, made where they are missing.

use anyhow::Context as _;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kardinal_api::forge::Repository;
use kardinal_api::kardinal::{Bundle, PIPELINE_LABEL, Pipeline, PolicyGate};
use kardinal_forge::{Author, Seed};
use kardinal_object::name_of;
use kardinal_policy::is_active;
use kardinal_promotion::intent::{NewBundle, Override, SOURCE_ANNOTATION, create_bundle, override_gate};
use kardinal_promotion::view::{ArrivalState, arrival};
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};

use super::Parts;
use crate::server::{Server, refused};

/// Where the sample lives.
pub(super) const NAMESPACE: &str = "default";
/// Where the organisation keeps its gates.
pub(super) const POLICIES: &str = "platform-policies";
/// The repository.
pub(super) const REPOSITORY: &str = "demo";
/// The application, and its Pipeline.
pub(super) const APP: &str = "my-app";
/// Its image.
pub(super) const IMAGE: &str = "ghcr.io/myorg/my-app";
/// Its environments.
pub(super) const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];

const KARDINAL: &str = "kardinal.io/v1alpha1";
const WEEKEND: &str = "no-weekend-deploys";
/// How long a version stays in staging before it may go on, in seconds.
const SOAK: u32 = 5;
/// How long the permission for a weekend lasts.
const PERMISSION: SignedDuration = SignedDuration::from_hours(1);

const README: &str =
    "# demo\n\nThe configuration of `my-app`. kardinal writes the image tags in `environments/`.\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: my-app
spec:
  replicas: 1
  selector:
    matchLabels:
      app: my-app
  template:
    metadata:
      labels:
        app: my-app
    spec:
      containers:
        - name: app
          image: ghcr.io/myorg/my-app
";

/// The directory of an environment.
pub(super) fn folder(environment: &str) -> String {
    format!("environments/{environment}")
}

fn kustomization(environment: &str) -> String {
    format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: {environment}\n\
         resources:\n  - ../../base\nimages:\n  - name: {IMAGE}\n    newTag: \"1.0.0\" # written by kardinal\n"
    )
}

/// Makes everything but the Bundles; returns what the user should know.
pub(super) async fn prepare(server: &Server, parts: &Parts, now: Timestamp) -> anyhow::Result<Vec<String>> {
    found_repository(parts, now).await?;
    for name in ENVIRONMENTS.into_iter().chain([POLICIES]) {
        let namespaces: Api<Namespace> = Api::all(server.client.clone());
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        match namespaces.create(&PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            made => drop(made?),
        }
    }
    let repository = json!({
        "apiVersion": "forge.kardinal.io/v1alpha1",
        "kind": "Repository",
        "metadata": {"name": REPOSITORY},
        "spec": {"description": "the sample application of the demo", "protectedBranches": ["main"]},
    });
    server.ensure(&serde_json::from_value::<Repository>(repository)?).await?;
    ensure_pipeline(server, &parts.remote().url).await?;
    ensure_gates(server, now).await
}

/// The commits come first, so that whoever finds the Repository finds them in it.
async fn found_repository(parts: &Parts, now: Timestamp) -> anyhow::Result<()> {
    let store = parts.forge.store.clone();
    let founded = tokio::task::spawn_blocking(move || {
        store.create(NAMESPACE, REPOSITORY, "main")?;
        let kustomizations: Vec<(String, String)> = ENVIRONMENTS
            .iter()
            .map(|name| (format!("{}/kustomization.yaml", folder(name)), kustomization(name)))
            .collect();
        let mut files = vec![
            ("README.md", README),
            ("base/deployment.yaml", DEPLOYMENT),
            ("base/kustomization.yaml", "resources:\n  - deployment.yaml\n"),
        ];
        files.extend(kustomizations.iter().map(|(path, text)| (path.as_str(), text.as_str())));
        let author = Author { name: "kardinal".to_owned(), email: "kardinal@localhost".to_owned() };
        let message = "my-app 1.0.0 in dev, staging and prod\n";
        store.seed(
            NAMESPACE,
            REPOSITORY,
            &Seed { branch: "main", files: &files, message, author: &author, time: now },
        )
    });
    founded.await?.context("the sample repository cannot be made")?;
    Ok(())
}

/// On another port the forge has other URLs.
async fn ensure_pipeline(server: &Server, url: &str) -> anyhow::Result<()> {
    let environment = |name: &str| {
        let approval = if name == "prod" { "pr-review" } else { "auto" };
        json!({"name": name, "path": folder(name), "approval": approval, "health": {"type": "resource", "timeout": "20s"}})
    };
    let environments: Vec<Value> = ENVIRONMENTS.into_iter().map(environment).collect();
    let manifest = json!({
        "apiVersion": KARDINAL,
        "kind": "Pipeline",
        "metadata": {"name": APP},
        "spec": {"git": {"url": url, "branch": "main", "provider": "local"}, "environments": environments},
    });
    let (pipeline, _) = server.ensure(&serde_json::from_value::<Pipeline>(manifest)?).await?;
    if pipeline.spec.git.url != url {
        server.patch(&pipeline, &json!({"spec": {"git": {"url": url}}})).await?;
    }
    Ok(())
}

async fn ensure_gates(server: &Server, now: Timestamp) -> anyhow::Result<Vec<String>> {
    let gate = |name: &str, expression: &str, message: &str| {
        serde_json::from_value::<PolicyGate>(json!({
            "apiVersion": KARDINAL,
            "kind": "PolicyGate",
            "metadata": {"name": name, "labels": {
                "kardinal.io/scope": "org", "kardinal.io/applies-to": "prod", "kardinal.io/type": "gate",
            }},
            "spec": {"expression": expression, "message": message, "recheckInterval": "5m"},
        }))
    };
    let organisation = Server { client: server.client.clone(), namespace: POLICIES.to_owned() };
    let soaked = format!("bundle.upstreamSoakSeconds >= {SOAK}");
    let message = format!("Versions stay in staging for {SOAK} seconds before production");
    organisation.ensure(&gate("staging-soak", &soaked, &message)?).await?;
    let weekend = gate(WEEKEND, "!schedule.isWeekend", "Nothing goes to production on a weekend")?;
    let (weekend, _) = organisation.ensure(&weekend).await?;
    permit(&organisation, &weekend, now).await
}

/// On a weekend the demo would stand still; a permission on record lets it go on.
async fn permit(organisation: &Server, gate: &PolicyGate, now: Timestamp) -> anyhow::Result<Vec<String>> {
    let is_weekend = now.to_zoned(TimeZone::UTC).weekday().to_monday_zero_offset() >= 5;
    let is_permitted = gate.spec.overrides.iter().any(|given| is_active(given, now));
    if !is_weekend || is_permitted {
        return Ok(Vec::new());
    }
    let wish = Override {
        reason: "it is a weekend, and this is a demo",
        who: "kardinal up --demo",
        stage: Some("prod"),
        // The gate guards names only.
        place: None,
        expires: now.checked_add(PERMISSION).ok(),
        only: None,
    };
    organisation.patch(gate, &override_gate(gate, &wish, now).map_err(refused)?).await?;
    Ok(vec![format!("It is a weekend: an override lets prod pass the gate `{WEEKEND}` for one hour.\n")])
}

/// Releases 1.0.0, which is there already, and then 1.1.0. Where there are other Bundles nothing is left to do.
pub(super) async fn release(server: &Server) -> anyhow::Result<()> {
    let bundles = server.bundles(APP).await?;
    let baseline = match bundles.as_slice() {
        [] => server.create(&bundle("1.0.0")?, false).await?,
        [only] => only.clone(),
        _ => return Ok(()),
    };
    let name = name_of(&baseline.metadata);
    let state = |bundle: Option<&Bundle>| arrival(name, bundle).state;
    let is_over = |bundle: Option<&Bundle>| state(bundle).is_over();
    let ended = await_condition(server.api::<Bundle>(), name, is_over).await?;
    let of_app = ListParams::default().labels(&format!("{PIPELINE_LABEL}={APP}"));
    let others = server.list::<Bundle>(&of_app).await?.len() > 1;
    let has_arrived = state(ended.as_ref()) == ArrivalState::Arrived;
    if has_arrived && !others && kardinal_promotion::gate_context::version(&baseline.spec) == "1.0.0" {
        server.create(&bundle("1.1.0")?, false).await?;
    }
    Ok(())
}

/// A Bundle whose name says its version and nothing else, so that it is made once.
fn bundle(version: &str) -> anyhow::Result<Bundle> {
    let image = format!("{IMAGE}:{version}");
    let new = NewBundle { pipeline: APP, namespace: NAMESPACE, images: &[&image], ..NewBundle::default() };
    let mut bundle = create_bundle(&new, Timestamp::UNIX_EPOCH).map_err(refused)?;
    bundle.metadata.name = Some(format!("{APP}-v{}", version.replace('.', "-")));
    bundle.metadata.annotations = Some([(SOURCE_ANNOTATION.to_owned(), "demo".to_owned())].into());
    Ok(bundle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_weekend_is_let_pass_once_and_on_record() {
        let embedded =
            kardinal_apiserver::Server::start(kardinal_apiserver::Options::default()).await.unwrap();
        let client = embedded.client(NAMESPACE);
        kardinal_cluster::install::ensure_definitions(&client, &kardinal_api::crds()).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": POLICIES}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let server = Server { client: client.clone(), namespace: NAMESPACE.to_owned() };
        let gates: Api<PolicyGate> = Api::namespaced(client, POLICIES);
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for (now, is_remarked, overrides) in [
            ("2026-04-10T23:59:59Z", false, 0), // a Friday
            ("2026-04-11T00:00:00Z", true, 1),
            ("2026-04-11T00:30:00Z", false, 1),
            ("2026-04-12T23:30:00Z", true, 1), // the first one is over and dropped
            ("2026-04-13T00:00:00Z", false, 1),
        ] {
            let remarks = ensure_gates(&server, at(now)).await.unwrap();
            assert_eq!(!remarks.is_empty(), is_remarked, "{now}: {remarks:?}");
            let given = gates.get(WEEKEND).await.unwrap().spec.overrides;
            assert_eq!(given.len(), overrides, "{now}: {given:?}");
            assert!(given.iter().all(|one| one.expires_at.is_some() && one.stage.as_deref() == Some("prod")));
        }
        assert!(gates.get("staging-soak").await.is_ok());
        embedded.shutdown().await;
    }

    #[test]
    fn the_gates_and_manifests_are_what_the_product_takes() {
        kardinal_promotion::gate_context::check_expression(&format!("bundle.upstreamSoakSeconds >= {SOAK}"))
            .unwrap();
        assert_eq!(bundle("1.1.0").unwrap().metadata.name.as_deref(), Some("my-app-v1-1-0"));
    }
}
