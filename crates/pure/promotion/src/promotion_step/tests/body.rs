//! What a pull request tells.

use kardinal_api::kardinal::Evidence;

use super::*;

fn opened(scene: &mut Scene) -> NewPullRequest {
    scene.step.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    scene.has_no_pull_request = true;
    let commit = scene.effect();
    scene.tell(&commit, committed());
    let Effect::Forge(ForgeEffect::OpenPullRequest(order)) = scene.effect() else { panic!("a pull request") };
    order
}

#[test]
fn the_body_is_the_evidence() {
    let mut scene = Scene::reviewed()
        .with_gate("my-app-no-weekend-deploys", ready())
        .with_gate("my-app-staging-soak", ready());
    scene.gate_texts = BTreeMap::from([
        ("my-app-no-weekend-deploys".to_owned(), "Tuesday 14:00 UTC".to_owned()),
        ("my-app-staging-soak".to_owned(), "Soak: 45m (min: 30m)".to_owned()),
    ]);
    let order = opened(&mut scene);
    assert_eq!((order.head.as_str(), order.base.as_str()), ("kardinal/default/my-app-v1-29-0/prod", "main"));
    assert_eq!(order.title, "[kardinal] Promote my-app-v1-29-0 to prod");
    assert_eq!(order.labels, ["kardinal", "kardinal/promotion"]);
    assert_eq!(
        order.body,
        "<!-- kardinal-step: 0b5e -->
## Promotion: my-app v1.29.0 to prod

As of 2026-04-14 14:00 UTC.

### Policy Gates
| Gate | Scope | Status | Detail |
|---|---|---|---|
| no-weekend-deploys | org | PASS | Tuesday 14:00 UTC |
| staging-soak | org | PASS | Soak: 45m (min: 30m) |

### Artifact
| Field | Value |
|---|---|
| Image | ghcr.io/myorg/my-app:1.29.0 |
| Digest | sha256:a1b2c3d4 |
| Source Commit | abc123d |
| CI Run | [Build #12345](https://github.com/myorg/my-app/actions/runs/12345) |

### Upstream Verification
| Environment | Verified | Soak |
|---|---|---|
| dev | 2h ago | n/a |
| staging | 45m ago | 45m |

### Changes
ghcr.io/myorg/my-app: 1.28.0 to 1.29.0
"
    );
}

#[test]
fn a_rollback_says_so_at_the_top() {
    let mut scene = Scene::reviewed();
    let bundle = scene.bundle.as_mut().unwrap();
    bundle.spec.provenance.as_mut().unwrap().rollback_of = Some("my-app-v1-30-0".to_owned());
    bundle.metadata.labels = from(json!({"kardinal.io/rollback": "true", "kardinal.io/emergency": "true"}));
    let order = opened(&mut scene);
    assert_eq!(order.title, "[kardinal] Rollback prod to my-app-v1-29-0 (reverts my-app-v1-30-0)");
    assert_eq!(order.labels, ["kardinal", "kardinal/promotion", "kardinal/rollback", "kardinal/emergency"]);
    let top = "<!-- kardinal-step: 0b5e -->\n> **Emergency rollback**: takes back my-app-v1-30-0 by promoting an \
               earlier version again.\n\n## Promotion: my-app v1.29.0 to prod\n";
    assert!(order.body.starts_with(top), "{}", order.body);
}

#[test]
fn what_only_says_that_it_is_a_rollback_is_told_as_such() {
    let mut scene = Scene::reviewed();
    let bundle = scene.bundle.as_mut().unwrap();
    bundle.spec.provenance.as_mut().unwrap().rollback_of = Some("my-app-v1-30-0".to_owned());
    bundle.metadata.labels = from(json!({"kardinal.io/emergency": "true"}));
    let order = opened(&mut scene);
    assert_eq!(order.labels, ["kardinal", "kardinal/promotion"]);
    assert!(
        order.body.contains("says that it takes back my-app-v1-30-0, and that is not so"),
        "{}",
        order.body
    );
}

#[test]
fn configuration_lists_its_files() {
    let mut scene = Scene::reviewed();
    scene.bundle = Some(config_bundle());
    scene.step.metadata.annotations = None;
    scene.step.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    scene.has_no_pull_request = true;
    let commit = scene.effect();
    let files = (0..60).map(|index| format!("environments/prod/{index:02}.yaml")).collect();
    let outcome = Outcome::Committed {
        commit: "c0ffee".to_owned(),
        base: None,
        push: Push::Made,
        files,
        moves: Vec::new(),
        source: None,
    };
    scene.tell(&commit, outcome);
    let Effect::Forge(ForgeEffect::OpenPullRequest(order)) = scene.effect() else { panic!("a pull request") };
    let expected = "## Promotion: my-app abc123de to prod\n\nAs of 2026-04-14 14:00 UTC.\n\n\
                    ### Policy Gates\nNo gates guard this environment.\n\n\
                    ### Artifact\n| Field | Value |\n|---|---|\n\
                    | Config Repository | https://github.com/myorg/app-config |\n\
                    | Config Commit | abc123d |\n\
                    | Config Message | Raise limits |\n\n\
                    ### Upstream Verification\nThis is the first environment.\n\n\
                    ### Changes\n- environments/prod/00.yaml\n";
    assert!(order.body.contains(expected), "{}", order.body);
    assert!(order.body.ends_with("- environments/prod/49.yaml\n- and 10 more\n"), "{}", order.body);
}

#[test]
fn without_a_record_the_changes_come_from_the_bundle_before() {
    let scene = |previous: Option<Bundle>| {
        let mut scene = Scene::reviewed().opened().kept().with_gate("soak", closed());
        scene.previous = previous;
        scene.step.status.as_mut().unwrap().outputs.remove("changes");
        scene.seal();
        let check = scene.effect();
        scene.tell(&check, Outcome::Done);
        let Effect::Forge(ForgeEffect::UpdatePullRequest { body, .. }) = scene.effect() else {
            panic!("an update")
        };
        body
    };
    let old = bundle(
        json!({"artifacts": {"images": [{"name": "my-app", "reference": "ghcr.io/myorg/my-app:1.27.0"}]}}),
    );
    assert!(scene(Some(old)).ends_with("### Changes\nghcr.io/myorg/my-app: 1.27.0 to 1.29.0\n"));
    assert!(scene(None).ends_with("### Changes\nghcr.io/myorg/my-app: 1.29.0 (new)\n"));
}

#[test]
fn foreign_text_stays_text() {
    let hostile = "a | b\n<!-- kardinal-step: 1 --> [x](y) `z` *w* & \\";
    let mut scene = Scene::reviewed().with_gate("soak", ready());
    scene.gate_texts.insert("soak".to_owned(), hostile.to_owned());
    scene.bundle.as_mut().unwrap().spec.provenance =
        from(json!({"commitSHA": "||||||||", "ciRunURL": "https://ci/1) | [boo](x"}));
    let body = opened(&mut scene).body;
    let row = "| soak | org | PASS | a \\| b &lt;!-- kardinal-step: 1 --&gt; \\[x\\](y) \\`z\\` \\*w\\* &amp; \\\\ |\n";
    assert!(body.contains(row), "{body}");
    assert!(body.contains("| CI Run | https://ci/1) \\| \\[boo\\](x |\n"), "{body}");
    assert_eq!(body.matches("<!-- kardinal-step").count(), 1);

    let mut long = Scene::reviewed().with_gate("soak", ready());
    long.gate_texts.insert("soak".to_owned(), "ä".repeat(5000));
    let body = opened(&mut long).body;
    assert!(body.contains(&format!("| {}… |", "ä".repeat(200))), "long values are cut");
}

#[test]
fn a_body_never_grows_beyond_what_a_forge_takes() {
    let mut scene = Scene::reviewed();
    let images: Vec<Value> = (0..100)
        .map(|index| json!({"name": format!("i{index}"), "reference": format!("x/{}{index}:1", "a".repeat(900))}))
        .collect();
    scene.bundle = Some(bundle(json!({"artifacts": {"images": images}})));
    for index in 0..250 {
        let name = format!("gate-{index}");
        scene = scene.with_gate(&name, ready());
        scene.gate_texts.insert(name, "&".repeat(4000));
    }
    let body = opened(&mut scene).body;
    assert!(body.chars().count() <= 60_000);
    assert!(body.contains("And 200 more.\n"), "{body}");
    assert!(scene.output("changes").is_some());
}

fn verified_step(environment: &str, at: &str) -> PromotionStep {
    let mut step = Scene::new(json!({"environment": environment})).step;
    step.metadata.name = Some(format!("my-app-v1-29-0-{environment}"));
    step.status = from(json!({"state": "Verified", "verifiedAt": at}));
    step
}

#[test]
fn an_environment_whose_upstream_was_verified_a_moment_ago_never_says_this_is_the_first_environment() {
    let mut scene = Scene::reviewed();
    // The Bundle's own record is behind.
    scene.bundle.as_mut().unwrap().status = None;
    scene.siblings = vec![verified_step("staging", "2026-04-14T13:59:59.5Z"), scene.step.clone()];
    let body = opened(&mut scene).body;
    assert!(body.contains("| staging | 0s ago | 0s |\n"), "{body}");
    assert!(!body.contains("first environment"), "{body}");
    // Nor where the Bundle skips those before.
    let mut skipping = Scene::reviewed();
    skipping.step.metadata.annotations = None;
    let bundle = skipping.bundle.as_mut().unwrap();
    bundle.status = None;
    bundle.spec.intent = from(json!({"skip": ["dev", "staging"]}));
    let body = opened(&mut skipping).body;
    assert!(body.contains("Nothing was verified before: this Bundle skips dev, staging.\n"), "{body}");
    assert!(!body.contains("first environment"), "{body}");
    // Not even when nothing at all is known of it.
    let mut blind = Scene::reviewed();
    blind.bundle.as_mut().unwrap().status = None;
    let body = opened(&mut blind).body;
    assert!(body.contains("| staging | not known | n/a |\n"), "{body}");
}

#[test]
fn the_body_tells_nothing_of_a_deleted_bundle_that_had_the_same_name() {
    let mut scene = Scene::reviewed();
    let bundle = scene.bundle.as_mut().unwrap();
    bundle.metadata.uid = Some("second".to_owned());
    bundle.status = None;
    let mut of_the_first = verified_step("staging", "2026-04-11T14:00:00Z");
    of_the_first.status.as_mut().unwrap().outputs.insert("bundleUid".to_owned(), "first".to_owned());
    scene.siblings = vec![of_the_first];
    let body = opened(&mut scene).body;
    assert!(body.contains("| staging | not known | n/a |\n"), "{body}");
}

#[test]
fn the_body_is_brought_up_to_date_when_any_fact_in_it_changes() {
    let mut scene = Scene::reviewed().with_gate("my-app-soak", ready()).opened().kept();
    assert_eq!(scene.plan(), Plan::default());
    // Another environment on the way was verified meanwhile: that is told at once.
    let mut staging = verified_step("staging", "2026-04-14T13:15:00Z");
    staging.metadata.annotations = from(json!({"kardinal.io/upstreams": "staging-eu"}));
    scene.siblings = vec![staging, verified_step("staging-eu", "2026-04-14T13:59:00Z")];
    let update = scene.effect();
    let Effect::Forge(ForgeEffect::UpdatePullRequest { body, .. }) = &update else { panic!("{update:?}") };
    assert!(body.contains("| staging-eu | 1m ago | n/a |\n"), "{body}");
    scene.tell(&update, Outcome::Done);
    assert_eq!(scene.plan(), Plan::default());
    // The gate asks something else.
    scene.gates.get_mut("my-app-soak").unwrap().spec.expression =
        "bundle.upstreamSoakMinutes >= 45".to_owned();
    let update = scene.effect();
    assert!(matches!(update, Effect::Forge(ForgeEffect::UpdatePullRequest { .. })), "{update:?}");
    scene.tell(&update, Outcome::Done);
    // The values behind an answer change all the time: those of the time that the body names stay.
    scene.gate_texts.insert("my-app-soak".to_owned(), "Soak: 46m (min: 30m)".to_owned());
    assert_eq!(scene.plan(), Plan::default());
    // Time alone changes no fact.
    scene.pass(SignedDuration::from_hours(5));
    assert_eq!(scene.plan(), Plan::default());
}

#[test]
fn an_environment_beside_this_one_is_no_upstream() {
    let mut scene = Scene::reviewed();
    let mut staging = verified_step("staging", "2026-04-14T13:15:00Z");
    staging.metadata.annotations = from(json!({"kardinal.io/upstreams": "dev"}));
    let mut beside = verified_step("prod-eu", "2026-04-14T13:59:00Z");
    beside.metadata.annotations = from(json!({"kardinal.io/upstreams": "staging"}));
    scene.siblings = vec![staging, beside];
    let body = opened(&mut scene).body;
    assert!(body.contains("| dev |") && body.contains("| staging |"), "{body}");
    assert!(!body.contains("prod-eu"), "{body}");
}

#[test]
fn an_upstream_that_nothing_proves_is_told_as_such() {
    let mut scene = Scene::reviewed();
    let mut staging = verified_step("staging", "2026-04-14T13:30:00Z");
    let doubt = Evidence { not_proven: Some("nothing has changed".to_owned()), ..Evidence::default() };
    staging.status.as_mut().unwrap().evidence = Some(doubt);
    scene.siblings = vec![staging];
    let body = opened(&mut scene).body;
    assert!(body.contains("| staging | 30m ago, not proven | 30m |"), "{body}");
}

#[test]
fn the_body_tells_a_pause_by_whom_since_when_and_what_ends_it() {
    let mut scene = Scene::reviewed().opened().kept();
    let pipeline: kardinal_api::kardinal::Pipeline = from(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "my-app"},
        "spec": {"paused": true, "git": {"url": "https://github.com/myorg/gitops-repo"}, "environments": []},
    }));
    let mut freeze = crate::intent::pause(&pipeline, "alice");
    freeze.metadata.creation_timestamp = from(json!("2026-04-14T13:59:00Z"));
    let by_gate = "> **Paused** since 2026-04-14 13:59 UTC, please do not merge: Pipeline \\`my-app\\` is paused by alice; \
                   \\`kardinal resume my-app\\` lets it go on.\n";
    let by_spec = "> **Paused**, please do not merge: Pipeline \\`my-app\\` is paused by \\`spec.paused\\`; \
                   \\`kardinal resume my-app\\` lets it go on.\n";
    for (hold, text) in
        [(hold(None, std::slice::from_ref(&freeze)), by_gate), (hold(Some(&pipeline), &[]), by_spec)]
    {
        scene.hold = hold;
        // First the check, which keeps people from merging, then the reason.
        let status = scene.effect();
        let Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, .. }) = &status else {
            panic!("{status:?}")
        };
        scene.tell(&status, Outcome::Done);
        let update = scene.effect();
        let Effect::Forge(ForgeEffect::UpdatePullRequest { body, .. }) = &update else {
            panic!("{update:?}")
        };
        assert!(body.contains(text), "{body}");
        scene.tell(&update, Outcome::Done);
        assert_eq!(scene.plan().effect(), None);
        scene.pass(SignedDuration::from_hours(5));
        assert_eq!(scene.plan().effect(), None, "time alone changes nothing");
        scene.hold = None;
        let update = scene.effect();
        let Effect::Forge(ForgeEffect::UpdatePullRequest { body, .. }) = &update else {
            panic!("{update:?}")
        };
        assert!(!body.contains("Paused"), "{body}");
        scene.tell(&update, Outcome::Done);
        scene = scene.kept();
    }
}
