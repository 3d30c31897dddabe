//! What is counted, and what nobody can make of it.

use kardinal_api::kardinal::{BundlePhase, Pipeline};
use kardinal_promotion::intent::{Answer, Wish, promote, rollback};
use kardinal_vcs::{NewPullRequest, PullRequest, PullRequestState};
use serde_json::{Value, json};

use super::*;

fn object<T: serde::de::DeserializeOwned>(kind: &str, name: &str, rest: Value) -> T {
    let mut object = json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "default", "labels": {PIPELINE_LABEL: "my-app"}},
    });
    for (key, value) in rest.as_object().unwrap() {
        object[key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// A Bundle that was verified in some environments in the minute of its version.
fn bundle(version: u8, environments: &[&str]) -> Bundle {
    let at = format!("2026-04-09T10:{version:02}:00Z");
    let record =
        |name: &&str| ((*name).to_owned(), json!({"state": "Verified", "promotedAt": at, "verifiedAt": at}));
    let records: serde_json::Map<_, _> = environments.iter().map(record).collect();
    let image = json!({"name": "my-app", "reference": format!("ghcr.io/myorg/my-app:{version}")});
    let rest = json!({
        "spec": {"artifacts": {"images": [image]}},
        "status": {"phase": "Verified", "environments": records},
    });
    object("Bundle", &format!("my-app-v{version}"), rest)
}

#[test]
fn bundles_of_promote_and_rollback_are_counted_with_their_source() {
    let environments = json!([{"name": "staging"}, {"name": "prod"}]);
    let spec = json!({"git": {"url": "https://example.com/gitops"}, "environments": environments});
    let pipeline: Pipeline = object("Pipeline", "my-app", json!({"spec": spec}));
    let (old, new) = (bundle(1, &["staging", "prod"]), bundle(2, &["staging"]));
    let bundles = [&old, &new];
    let wish = |environment| Wish {
        pipeline: &pipeline,
        environment,
        bundle: None,
        bundles: &bundles,
        force: false,
    };
    let now: Timestamp = "2026-04-09T10:30:00Z".parse().unwrap();
    let forward = promote(&wish("prod"), now).unwrap();
    let back = rollback(&wish("staging"), false, now).unwrap();
    let (Answer::New(forward), Answer::New(back)) = (forward, back) else { panic!("both are new") };
    let by_hand = Bundle { status: None, ..bundle(3, &[]) };
    let metrics = Metrics::default();
    for one in [&*forward, &*back, &by_hand] {
        metrics.bundle(one, &seen());
        // Only the first sight of it counts.
        metrics.bundle(&Bundle { status: Some(seen()), ..one.clone() }, &seen());
    }
    let text = metrics.render();
    for source in ["promote", "rollback", "kubectl"] {
        let line = format!("kardinal_bundles_created_total{{pipeline=\"my-app\",source=\"{source}\"}} 1");
        assert!(text.lines().any(|one| one == line), "`{line}` is missing in:\n{text}");
    }
    let line = "kardinal_rollbacks_total{env=\"staging\",trigger=\"manual\"} 1";
    assert!(text.lines().any(|one| one == line), "`{line}` is missing in:\n{text}");
}

/// A status that a Bundle gets first.
fn seen() -> BundleStatus {
    BundleStatus { phase: Some(BundlePhase::Available), ..BundleStatus::default() }
}

/// A Bundle of a Pipeline that says where it comes from, and that takes another one back in an environment.
fn stranger(pipeline: &str, source: &str, environment: &str) -> Bundle {
    let metadata = json!({
        "name": "b", "namespace": "default",
        "labels": {PIPELINE_LABEL: pipeline, ROLLBACK_LABEL: "a"},
        "annotations": {SOURCE_ANNOTATION: source},
    });
    let spec = json!({"artifacts": {}, "intent": {"target": environment}});
    object("Bundle", "b", json!({"metadata": metadata, "spec": spec}))
}

/// A pull request that is opened.
fn opened() -> (Effect, Outcome) {
    let order = NewPullRequest {
        head: "kardinal/b".to_owned(),
        base: "main".to_owned(),
        title: String::new(),
        body: String::new(),
        labels: Vec::new(),
        marker: String::new(),
        since: None,
    };
    let pull_request = PullRequest {
        number: 1,
        url: String::new(),
        state: PullRequestState::Open,
        branch: "kardinal/b".to_owned(),
        base: "main".to_owned(),
        head: String::new(),
        merged_at: None,
        merged_by: None,
        merge_commit: None,
        mergeable: None,
        closed_at: None,
        closed_by: None,
        approved_by: Vec::new(),
    };
    (Effect::Forge(ForgeEffect::OpenPullRequest(order)), Outcome::PullRequest(pull_request))
}

/// The samples, sorted.
fn lines(metrics: &Metrics) -> Vec<String> {
    let text = metrics.render();
    let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Everything that a tenant can have counted, under names that the tenant chose.
fn count(metrics: &Metrics, name: &str) {
    metrics.bundle(&stranger(name, name, name), &seen());
    let spec = json!({"expression": "false"});
    let gate: PolicyGate = object("PolicyGate", name, json!({"spec": spec}));
    metrics.gate(&gate, &PolicyGateStatus { ready: Some(false), ..PolicyGateStatus::default() });
    let spec = json!({"pipeline": name, "environment": name, "bundleRef": "b"});
    let step: PromotionStep = object("PromotionStep", "s", json!({"spec": spec}));
    let (effect, outcome) = opened();
    metrics.promotion(&step, &effect, &outcome);
    let metadata = json!({"name": "b", "creationTimestamp": "2026-04-09T10:00:00Z"});
    let bundle: Bundle = object("Bundle", "b", json!({"metadata": metadata, "spec": {"artifacts": {}}}));
    let at: Timestamp = "2026-04-09T10:30:00Z".parse().unwrap();
    let record = |state| PromotionStepStatus { state: Some(state), ..PromotionStepStatus::default() };
    metrics.step(&step, Some(&bundle), &record(PromotionState::Failed), at);
    let verified = record(PromotionState::Verified);
    let verified = PromotionStepStatus { promoted_at: Some(at), merged_at: Some(at), ..verified };
    metrics.step(&step, Some(&bundle), &verified, at);
}

#[test]
fn a_source_is_a_known_word_or_other() {
    let metrics = Metrics::default();
    let known = ["api", "automatic", "cli", "demo", "kubectl", "promote", "rollback"];
    let long = "x".repeat(200_000);
    for source in known.into_iter().chain(["", "API", "ci\u{1b}[2J", &long, "another"]) {
        metrics.bundle(&stranger("my-app", source, "prod"), &seen());
    }
    let text = metrics.render();
    for (source, count) in known.map(|word| (word, 1)).into_iter().chain([("other", 5)]) {
        let labels = format!("pipeline=\"my-app\",source=\"{source}\"");
        let line = format!("kardinal_bundles_created_total{{{labels}}} {count}");
        assert!(text.lines().any(|one| one == line), "`{line}` is missing in {} bytes", text.len());
    }
}

#[test]
fn what_is_no_name_is_no_label() {
    let expected = Metrics::default();
    count(&expected, "other");
    let long = "x".repeat(200_000);
    for bad in ["a\u{7}b", "a\r\nb", "a b", "Prod", "\u{202e}prod", "a\"} 1", &long] {
        let metrics = Metrics::default();
        count(&metrics, bad);
        // The texts are too long to be shown.
        assert!(lines(&metrics) == lines(&expected), "{}", bad.escape_debug().take(20).collect::<String>());
    }
}

#[test]
fn the_number_of_series_is_bounded() {
    let metrics = Metrics::default();
    count(&metrics, "first");
    for index in 0..3000 {
        count(&metrics, &format!("name-{index}"));
    }
    let full = lines(&metrics).len();
    for index in 3000..3100 {
        count(&metrics, &format!("name-{index}"));
    }
    count(&metrics, "first");
    let text = lines(&metrics);
    assert_eq!(text.len(), full, "no series is added");
    let value = |start: &str| -> u32 {
        let ours = text.iter().filter_map(|line| line.strip_prefix(start)?.rsplit_once(' '));
        ours.map(|(_, value)| value.parse::<u32>().unwrap()).sum()
    };
    for (name, label) in [
        ("bundles_created_total", "pipeline"),
        ("promotions_opened_total", "env"),
        ("promotions_merged_total", "env"),
        ("promotions_failed_total", "env"),
        ("rollbacks_total", "env"),
        ("policy_gates_blocked_total", "gate"),
        ("health_check_duration_seconds_count", "env"),
        ("promotion_lead_time_seconds_count", "env"),
    ] {
        let start = format!("kardinal_{name}{{");
        let series = text.iter().filter(|line| line.starts_with(&start)).count();
        assert!((100..=1010).contains(&series), "{name} has {series} series");
        // What is there already goes on, and nothing is lost.
        assert_eq!(value(&format!("{start}{label}=\"first\"")), 2, "{name}");
        assert_eq!(value(&start), 3102, "{name}");
        assert!(value(&format!("{start}{label}=\"other\"")) >= 100, "{name}");
    }
}

#[test]
fn an_answer_of_a_forge_that_http_does_not_know_is_other() {
    let metrics = Metrics::default();
    for status in 0..1000 {
        metrics.scm_request("pulls", status);
    }
    let text = lines(&metrics);
    assert!(text.len() < 100, "{} series", text.len());
    for status in ["0", "200", "404", "422", "429", "503", "other"] {
        let start = format!("kardinal_scm_api_requests_total{{endpoint=\"pulls\",status=\"{status}\"}} ");
        assert!(text.iter().any(|line| line.starts_with(&start)), "`{start}` is missing in {text:?}");
    }
}
