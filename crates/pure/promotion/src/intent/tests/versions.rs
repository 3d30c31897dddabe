//! Sequences of promotions and rollbacks: which version comes next, and which never comes back.

mod builds;
mod ledger;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::kardinal::{
    Bundle, BundlePhase, BundleStatus, BundleType, EnvironmentStatus, GitCommit, Pipeline, PromotionState,
};

use super::{now, pipeline};
use crate::intent::{
    Answer, FORCE, History, NewBundle, Wish, automatic_rollback, create_bundle, outlook, promote, rollback,
    verified_before,
};
use crate::view::history;
use kardinal_planner::problem::Problem;

const ALL: [&str; 3] = ["dev", "staging", "prod"];

/// A Pipeline's life, one event a minute.
struct Life {
    pipeline: Pipeline,
    bundles: Vec<Bundle>,
    minutes: i64,
}

impl Life {
    fn new() -> Life {
        Life { pipeline: pipeline(), bundles: Vec::new(), minutes: 0 }
    }

    /// Versions that are verified everywhere, one after the other.
    fn of(versions: &[&str]) -> Life {
        let mut life = Life::new();
        for version in versions {
            life.release(version, &ALL);
        }
        life
    }

    fn time(&mut self) -> jiff::Timestamp {
        self.minutes += 1;
        now() + SignedDuration::from_mins(self.minutes)
    }

    /// A new Bundle named after its version.
    fn create(&mut self, version: &str) -> usize {
        let image = format!("ghcr.io/myorg/my-app:{version}");
        let at = self.time();
        let new =
            NewBundle { pipeline: "my-app", namespace: "default", images: &[&image], ..NewBundle::default() };
        let mut bundle = create_bundle(&new, at).unwrap();
        bundle.metadata.name = Some(version.to_owned());
        self.add(bundle)
    }

    fn add(&mut self, mut bundle: Bundle) -> usize {
        bundle.metadata.creation_timestamp = Some(Time(now() + SignedDuration::from_mins(self.minutes)));
        bundle.status = Some(BundleStatus { phase: Some(BundlePhase::Promoting), ..BundleStatus::default() });
        self.bundles.push(bundle);
        self.bundles.len() - 1
    }

    fn release(&mut self, version: &str, environments: &[&str]) {
        let index = self.create(version);
        self.verify(index, environments);
    }

    fn verify(&mut self, index: usize, environments: &[&str]) {
        for environment in environments {
            self.set(index, environment, PromotionState::Verified, true);
        }
        self.finish(index, BundlePhase::Verified);
    }

    fn finish(&mut self, index: usize, phase: BundlePhase) {
        self.bundles[index].status.as_mut().unwrap().phase = Some(phase);
    }

    fn record(&mut self, index: usize, environment: &str) -> &mut EnvironmentStatus {
        let status = self.bundles[index].status.as_mut().unwrap();
        status.environments.get_mut(environment).unwrap()
    }

    fn set(&mut self, index: usize, environment: &str, state: PromotionState, arrived: bool) {
        let at = self.time();
        let entry = EnvironmentStatus {
            state: Some(state),
            promoted_at: arrived.then_some(at),
            verified_at: (state == PromotionState::Verified).then_some(at),
            ..EnvironmentStatus::default()
        };
        let status = self.bundles[index].status.as_mut().unwrap();
        status.environments.insert(environment.to_owned(), entry);
    }

    /// A version that breaks an environment after it was verified in those before.
    fn break_in(&mut self, version: &str, environment: &str) -> usize {
        let index = self.create(version);
        let at = ALL.iter().position(|name| *name == environment).unwrap();
        self.verify(index, &ALL[..at]);
        self.set(index, environment, PromotionState::Failed, true);
        self.finish(index, BundlePhase::Failed);
        index
    }

    /// What kardinal does about it.
    fn recover(&mut self, failed: usize, environment: &str) -> String {
        let bad = self.bundles[failed].clone();
        let others: Vec<&Bundle> =
            self.bundles.iter().filter(|one| one.metadata.name != bad.metadata.name).collect();
        let good = verified_before(&others, environment, &bad).expect("something to go back to").clone();
        self.bring(automatic_rollback(&bad, environment, &good, &[]), environment)
    }

    /// Lets a Bundle arrive; tells its version.
    fn bring(&mut self, bundle: Bundle, environment: &str) -> String {
        let version = crate::gate_context::version(&bundle.spec);
        self.time();
        let index = self.add(bundle);
        let at = ALL.iter().position(|name| *name == environment).unwrap();
        self.verify(index, &ALL[..=at]);
        version
    }

    fn wish(&self, environment: &str, to: Option<&str>, force: bool) -> Result<Bundle, Problem> {
        let bundles: Vec<&Bundle> = self.bundles.iter().collect();
        let bundle = to.map(|name| self.named(name));
        let at = now() + SignedDuration::from_mins(self.minutes);
        let pipeline = &self.pipeline;
        match rollback(&Wish { pipeline, environment, bundle, bundles: &bundles, force }, false, at)? {
            Answer::New(bundle) => Ok(*bundle),
            Answer::OnItsWay(bundle) | Answer::There(bundle) => {
                let name = bundle.metadata.name.as_deref().unwrap();
                Err(Problem::new("coming", format!("coming with {name}")))
            }
        }
    }

    /// Rolls back and lets it arrive; tells the version or the problem.
    fn back(&mut self, environment: &str) -> String {
        match self.wish(environment, None, false) {
            Ok(bundle) => self.bring(bundle, environment),
            Err(problem) => problem.message,
        }
    }

    fn named(&self, name: &str) -> &Bundle {
        self.bundles.iter().find(|one| one.metadata.name.as_deref() == Some(name)).unwrap()
    }

    /// What a promotion would do: `new v`, `there v`, `coming v` or the problem.
    fn forward(&self, environment: &str, source: Option<&str>, force: bool) -> String {
        let bundles: Vec<&Bundle> = self.bundles.iter().collect();
        let bundle = source.map(|name| self.named(name));
        let at = now() + SignedDuration::from_mins(self.minutes);
        let wish = Wish { pipeline: &self.pipeline, environment, bundle, bundles: &bundles, force };
        match promote(&wish, at) {
            Ok(Answer::New(bundle)) => format!("new {}", crate::gate_context::version(&bundle.spec)),
            Ok(Answer::There(bundle)) => format!("there {}", crate::gate_context::version(&bundle.spec)),
            Ok(Answer::OnItsWay(bundle)) => format!("coming {}", crate::gate_context::version(&bundle.spec)),
            Err(problem) => format!("{}: {}", problem.field, problem.message),
        }
    }
}

#[test]
fn a_second_rollback_goes_further_back_and_never_forward() {
    let mut life = Life::of(&["1", "2", "3"]);
    assert_eq!([life.back("prod"), life.back("prod")], ["2", "1"]);
    assert!(life.back("prod").contains("no Bundle was verified in `prod` before"));
    // A version after it is the newest again, and what it replaced is what the rollbacks arrived at.
    life.release("4", &ALL);
    assert_eq!(life.back("prod"), "1");
    // A choice goes down by more than one, and what it passed is taken back, too.
    let mut life = Life::of(&["1", "2", "3", "4"]);
    let chosen = life.wish("prod", Some("2"), false).unwrap();
    assert_eq!(life.bring(chosen, "prod"), "2");
    assert_eq!(life.back("prod"), "1");
}

#[test]
fn after_an_automatic_rollback_the_failed_version_is_not_offered() {
    let mut life = Life::of(&["0", "1"]);
    let bad = life.break_in("2", "prod");
    assert_eq!(life.recover(bad, "prod"), "1");
    assert_eq!(life.back("prod"), "0");
    let mut life = Life::of(&["1"]);
    let bad = life.break_in("2", "prod");
    life.recover(bad, "prod");
    assert!(life.back("prod").contains("before"), "there was nothing before 1");
    // Without an automatic rollback the environment has the failed version, and goes back from it.
    let mut life = Life::of(&["1"]);
    life.break_in("2", "prod");
    assert_eq!(life.back("prod"), "1");
    // A failure in between is passed over.
    let mut life = Life::of(&["1"]);
    life.break_in("2", "prod");
    life.release("3", &ALL);
    assert_eq!(life.back("prod"), "1");
}

#[test]
fn the_same_content_under_another_name_counts_as_the_same_version() {
    let mut life = Life::of(&["1", "2"]);
    let again = life.bundles[1].spec.clone();
    let mut copy = Bundle::new("copy-of-2", again);
    copy.metadata.labels.clone_from(&life.bundles[1].metadata.labels);
    life.bring(copy, "prod");
    assert_eq!(life.back("prod"), "1", "going back from 2 to 2 would change nothing");
    // What failed as another Bundle is not gone back to.
    let mut life = Life::of(&["1", "2", "3"]);
    let mut copy = Bundle::new("copy-of-2", life.bundles[1].spec.clone());
    copy.metadata.labels.clone_from(&life.bundles[1].metadata.labels);
    let index = life.add(copy);
    life.set(index, "prod", PromotionState::Failed, true);
    life.finish(index, BundlePhase::Failed);
    assert_eq!([life.back("prod"), life.back("prod")], ["3", "1"]);
    let problem = life.wish("prod", Some("2"), false).unwrap_err();
    assert!(
        problem.field == FORCE && problem.message.contains("failed in `prod`, with `copy-of-2`"),
        "{problem}"
    );
}

#[test]
fn a_rollback_to_what_failed_or_was_taken_back_needs_force() {
    let mut life = Life::of(&["1", "2"]);
    let bad = life.break_in("3", "prod");
    life.recover(bad, "prod");
    let problem = life.wish("prod", Some("3"), false).unwrap_err();
    assert_eq!(problem.field, FORCE);
    assert!(problem.message.contains("`3` has failed in `prod`"), "{problem}");
    assert!(problem.hint.as_deref().unwrap().contains("--force"), "{problem}");
    assert_eq!(crate::gate_context::version(&life.wish("prod", Some("3"), true).unwrap().spec), "3");
    life.back("prod");
    let problem = life.wish("prod", Some("2"), false).unwrap_err();
    assert!(problem.field == FORCE && problem.message.contains("`2` was taken back in `prod`"), "{problem}");
    assert!(life.wish("prod", Some("2"), true).is_ok());
    let same = life.wish("prod", Some("1"), true).unwrap_err();
    assert!(same.message.contains("carries what `prod` has now"), "{same}");
}

#[test]
fn promote_takes_what_the_upstream_has_now() {
    let mut life = Life::of(&["1"]);
    life.release("2", &["dev", "staging"]);
    assert_eq!(life.forward("prod", None, false), "new 2");
    assert_eq!(life.back("staging"), "1");
    assert_eq!(life.forward("prod", None, false), "there 1", "what staging once verified does not count");
    let refused = life.forward("prod", Some("2"), false);
    assert!(refused.starts_with("force: `2` was taken back in `dev` by"), "it never was in prod: {refused}");
    assert_eq!(life.forward("prod", Some("2"), true), "new 2");
    let mut life = Life::of(&["1", "2"]);
    life.break_in("3", "staging");
    assert_eq!(
        life.forward("prod", None, false),
        "environment: `staging` has `3` now, which is not verified there"
    );
    let life = Life::new();
    assert_eq!(
        life.forward("prod", None, false),
        "environment: no Bundle has reached `staging`, which comes before"
    );
    assert!(life.forward("nowhere", None, false).contains("no environment `nowhere`"));
}

#[test]
fn a_version_with_another_digest_does_not_stay() {
    let mut life = Life::new();
    for (name, digest) in [("a", "c"), ("b", "d")] {
        let at = life.create(name);
        let image = &mut life.bundles[at].spec.artifacts.images[0];
        image.reference = "ghcr.io/myorg/my-app:5.0.0".to_owned();
        image.digest = Some(format!("sha256:{}", digest.repeat(64)));
        life.verify(at, &ALL);
        life.finish(at, BundlePhase::Verified);
    }
    let back = life.wish("prod", None, false).unwrap();
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let told = outlook(&life.pipeline, &back, &bundles, &[], &[]).unwrap().render();
    assert!(told.contains("v5.0.0 (sha256:dddddddddddd) → v5.0.0 (sha256:cccccccccccc)"), "{told}");
    assert!(!told.contains("stays"), "{told}");
}

#[test]
fn what_was_taken_back_or_failed_in_an_environment_on_the_way_needs_force() {
    let mut life = Life::of(&["1", "2"]);
    assert_eq!(life.back("dev"), "1");
    let refused = life.forward("staging", Some("2"), false);
    assert_eq!(refused, "there 2", "it is there, and nothing has to pass dev");
    life.release("3", &["dev", "staging"]);
    assert_eq!(life.back("dev"), "1", "2 was taken back there before");
    // Staging has 3, and prod can get that only through dev, which went back.
    let refused = life.forward("prod", Some("3"), false);
    assert!(refused.starts_with("force: `3` was taken back in `dev` by"), "{refused}");
    assert_eq!(life.forward("prod", Some("3"), true), "new 3");
    // To go back from 3 to 2 in staging would bring dev forward to what it has taken back.
    let problem = life.wish("staging", None, false).unwrap_err();
    assert!(problem.field == FORCE && problem.message.contains("`2` was taken back in `dev`"), "{problem}");
    assert!(life.wish("staging", None, true).is_ok());
    let mut life = Life::of(&["1"]);
    life.break_in("2", "dev");
    let refused = life.forward("prod", Some("2"), false);
    assert_eq!(refused, "force: `2` has failed in `dev`, with `2`");
    // Where it changes nothing a failed attempt speaks against nothing.
    let mut life = Life::of(&["1"]);
    life.release("2", &["dev", "staging"]);
    let again = life.create("again");
    life.bundles[again].spec.artifacts = life.bundles[again - 1].spec.artifacts.clone();
    life.set(again, "dev", PromotionState::Failed, false);
    life.finish(again, BundlePhase::Failed);
    assert_eq!(life.forward("prod", None, false), "new 2");
}

#[test]
fn after_a_rollback_of_all_environments_promote_does_not_bring_the_version_back() {
    for environments in [&["prod"] as &[&str], &["dev", "staging", "prod"]] {
        let mut life = Life::of(&["1", "2"]);
        for environment in environments {
            let bundles: Vec<&Bundle> = life.bundles.iter().collect();
            let present = History::latest(&bundles, environment).unwrap().present().unwrap();
            if crate::gate_context::version(&present.spec) == "2" {
                assert_eq!(life.back(environment), "1");
            }
        }
        for environment in ALL {
            assert_eq!(life.forward(environment, None, false), "there 1");
        }
        let refused = life.forward("prod", Some("2"), false);
        assert!(
            refused.starts_with("force: `2` was taken back in `prod` by `my-app-v1-rollback-"),
            "{refused}"
        );
        assert_eq!(life.forward("prod", Some("2"), true), "new 2");
    }
}

#[test]
fn a_version_that_failed_there_needs_force() {
    let mut life = Life::of(&["1"]);
    let bad = life.break_in("2", "prod");
    assert_eq!(life.forward("prod", None, false), "force: `2` has failed in `prod`, with `2`");
    assert_eq!(life.forward("prod", None, true), "new 2");
    life.recover(bad, "prod");
    assert_eq!(life.forward("prod", None, false), "there 1", "staging went back on the way");
    // A failure before anything was written counts as well.
    let mut life = Life::of(&["1"]);
    let refused = life.create("2");
    life.verify(refused, &["dev", "staging"]);
    life.set(refused, "prod", PromotionState::Failed, false);
    life.finish(refused, BundlePhase::Failed);
    assert!(life.forward("prod", None, false).starts_with("force: `2` has failed"));
    // What was good later is good.
    let forced = life.create("2b");
    life.bundles[forced].spec = life.bundles[refused].spec.clone();
    life.verify(forced, &ALL);
    life.release("3", &["dev", "staging", "prod"]);
    assert_eq!(life.back("prod"), "2");
}

#[test]
fn what_is_on_its_way_is_not_sent_twice() {
    let mut life = Life::of(&["1"]);
    let coming = life.create("2");
    life.set(coming, "dev", PromotionState::Verified, true);
    life.set(coming, "staging", PromotionState::Verified, true);
    assert_eq!(life.forward("prod", None, false), "coming 2");
    life.set(coming, "prod", PromotionState::WaitingForMerge, false);
    assert_eq!(life.forward("prod", None, false), "coming 2");
    // The version that prod has is wanted while another one is at its door.
    assert_eq!(life.forward("prod", Some("1"), false), "new 1");
    assert_eq!(life.forward("dev", None, false), "there 2");
}

#[test]
fn all_upstreams_must_have_the_same_version() {
    let mut life = Life::new();
    life.pipeline = super::yaml(
        "apiVersion: kardinal.io/v1alpha1\nkind: Pipeline\nmetadata: {name: my-app, namespace: default}\n\
         spec: {git: {url: u}, environments: [{name: dev, dependsOn: []}, {name: staging, dependsOn: []}, {name: prod, dependsOn: [dev, staging]}]}",
    );
    life.release("1", &["dev", "staging"]);
    assert_eq!(life.forward("prod", None, false), "new 1");
    life.release("2", &["dev"]);
    assert_eq!(
        life.forward("prod", None, false),
        "environment: the environments before have different versions now: `dev` has `2`, `staging` has `1`"
    );
}

#[test]
fn images_and_configuration_have_histories_of_their_own() {
    let mut life = Life::of(&["1", "2"]);
    for sha in ["aaaaaaa", "bbbbbbb"] {
        let git_commit = Some(GitCommit { repository: "r".to_owned(), sha: sha.to_owned(), message: None });
        let at = life.time();
        let new = NewBundle { pipeline: "my-app", namespace: "default", git_commit, ..NewBundle::default() };
        let mut config = create_bundle(&new, at).unwrap();
        config.metadata.name = Some(sha.to_owned());
        life.bring(config, if sha == "aaaaaaa" { "prod" } else { "staging" });
    }
    assert_eq!(life.forward("prod", None, false), "new bbbbbbb");
    let back = life.wish("staging", None, false).unwrap();
    assert_eq!(back.spec.kind(), BundleType::Config);
    let name = back.metadata.name.as_deref().unwrap();
    assert!(name.starts_with("my-app-config-aaaaaaa-rollback-"), "{name}");
    life.bring(back, "staging");
    assert_eq!(life.forward("prod", None, false), "there aaaaaaa");
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let images = History::of(&bundles, "prod", BundleType::Image);
    assert_eq!(images.fallback().and_then(|one| one.metadata.name.as_deref()), Some("1"));
    // In prod the first configuration came last: the image can still be taken back, and people are told how.
    let problem = life.wish("prod", None, false).unwrap_err();
    let hint = problem.hint.unwrap_or_default();
    assert!(hint.contains("`--to 1` takes back what `prod` has of another kind"), "{hint}");
    let back = life.wish("prod", Some("1"), false).unwrap();
    assert_eq!(
        (back.spec.kind(), crate::gate_context::version(&back.spec).as_str()),
        (BundleType::Image, "1")
    );
    assert_eq!(back.spec.provenance.unwrap().rollback_of.as_deref(), Some("2"));
}

#[test]
fn clocks_that_differ_do_not_turn_the_order_round() {
    // The forge counts whole seconds, so the rollback seems to be in before what it takes back.
    let mut life = Life::of(&["1"]);
    let bad = life.break_in("2", "prod");
    life.recover(bad, "prod");
    let failed_at = life.bundles[1].status.as_ref().unwrap().environments["prod"].promoted_at.unwrap();
    let early = failed_at - SignedDuration::from_secs(5);
    life.bundles[2].metadata.creation_timestamp = Some(Time(early));
    let entry = life.bundles[2].status.as_mut().unwrap().environments.get_mut("prod").unwrap();
    (entry.promoted_at, entry.verified_at) = (Some(early), Some(early));
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let present = History::latest(&bundles, "prod").unwrap().present().unwrap();
    assert_eq!(crate::gate_context::version(&present.spec), "1");
}

#[test]
fn names_of_rollbacks_tell_the_version_that_they_bring() {
    let mut life = Life::of(&["1.28.0"]);
    let bad = life.break_in("1.29.0", "prod");
    let made = automatic_rollback(&life.bundles[bad], "prod", &life.bundles[0], &[]);
    let name = made.metadata.name.unwrap();
    assert!(name.starts_with("my-app-v1-28-0-rollback-"), "{name}");
    let twice = automatic_rollback(&life.bundles[bad], "prod", &life.bundles[0], &[]);
    assert_eq!(twice.metadata.name, Some(name.clone()));
    let elsewhere = automatic_rollback(&life.bundles[bad], "dev", &life.bundles[0], &[]);
    assert_ne!(elsewhere.metadata.name, Some(name));
    life.pipeline.metadata.name =
        Some("a-pipeline-with-a-name-as-long-as-names-may-be-in-practice".to_owned());
    let made = life.wish("prod", None, false).unwrap().metadata.name.unwrap();
    assert!(made.len() <= 63 && made.contains("-rollback-"), "{made}");
}

#[test]
fn what_will_happen_is_known_before() {
    let mut life = Life::of(&["1.0", "2.0"]);
    life.pipeline.spec.environments[2].approval = Some(kardinal_api::kardinal::Approval::PrReview);
    life.back("staging");
    let gate = super::yaml(
        "apiVersion: kardinal.io/v1alpha1\nkind: PolicyGate\nmetadata: {name: soak, namespace: default, labels: {kardinal.io/applies-to: prod}}\n\
         spec: {expression: 'true'}",
    );
    life.create("3.0");
    let wanted = life.wish("prod", None, false).unwrap();
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let text = outlook(&life.pipeline, &wanted, &bundles, &[&gate], &[]).unwrap().render();
    let lines = [
        "  dev      v1.0 stays, nothing to change",
        "  staging  v1.0 stays, nothing to change",
        "  prod     v2.0 → v1.0, by a pull request that somebody merges, through `soak`",
        "  `3.0` on its way now gives way to it",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    // A pause is told before somebody counts on it.
    let freeze = crate::intent::pause(&life.pipeline, "alice");
    let text = outlook(&life.pipeline, &wanted, &bundles, &[&gate, &freeze], &[]).unwrap().render();
    let held = "  all of it is held for now: Pipeline `my-app` is paused by alice; `kardinal resume my-app` lets it go on";
    assert!(text.lines().any(|line| line == held), "{text}");
    // The same rule as that of the controllers decides.
    let mut pinned = life.bundles.pop().unwrap();
    pinned.metadata.annotations.get_or_insert_default().insert("kardinal.io/pin".into(), "true".into());
    life.bundles.push(pinned);
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let outlook = outlook(&life.pipeline, &wanted, &bundles, &[&gate], &[]).unwrap();
    assert_eq!(outlook.supersedes, [""; 0], "one that is pinned gives way to nobody");
}

#[test]
fn the_source_of_promote_and_rollback_is_on_record() {
    let mut life = Life::of(&["1", "2"]);
    let source =
        |bundle: &Bundle| bundle.metadata.annotations.as_ref().unwrap()["kardinal.io/source"].clone();
    assert_eq!(source(&life.wish("prod", None, false).unwrap()), "rollback");
    assert_eq!(source(&automatic_rollback(&life.bundles[1], "prod", &life.bundles[0], &[])), "automatic");
    life.release("3", &["dev", "staging"]);
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let wish =
        Wish { pipeline: &life.pipeline, environment: "prod", bundle: None, bundles: &bundles, force: false };
    match promote(&wish, now()).unwrap() {
        Answer::New(bundle) => assert_eq!(source(&bundle), "promote"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_order_in_the_same_second_gets_a_name_of_its_own() {
    let mut life = Life::of(&["1.28.0", "1.29.0"]);
    let at = now() + SignedDuration::from_mins(life.minutes);
    let second = at.as_second();
    let same = format!("my-app-v1-29-0-{second}");
    life.bundles[1].metadata.name = Some(same.clone());
    // Whoever takes it back and orders it again within the second means another Bundle.
    let back = life.wish("prod", None, false).unwrap();
    assert_eq!(back.metadata.name, Some(format!("my-app-v1-28-0-rollback-{second}")));
    life.add(back);
    life.verify(2, &ALL);
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let bundle = Some(life.named(&same));
    let wish = Wish { pipeline: &life.pipeline, environment: "prod", bundle, bundles: &bundles, force: true };
    match promote(&wish, at).unwrap() {
        Answer::New(bundle) => {
            assert_eq!(bundle.metadata.name, Some(format!("my-app-v1-29-0-{}", second + 1)));
            life.add(*bundle);
        }
        other => panic!("{other:?}"),
    }
    life.verify(3, &ALL);
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let wish =
        Wish { pipeline: &life.pipeline, environment: "prod", bundle: None, bundles: &bundles, force: false };
    let Answer::New(again) = rollback(&wish, false, at).unwrap() else { panic!("a new one") };
    assert_eq!(again.metadata.name, Some(format!("my-app-v1-28-0-rollback-{}", second + 1)));
}

#[test]
fn after_a_rejected_rollback_promote_and_rollback_say_the_same() {
    let mut life = Life::of(&["1", "2"]);
    let back = life.wish("prod", None, false).unwrap();
    let index = life.add(back);
    life.verify(index, &["dev", "staging"]);
    life.set(index, "prod", PromotionState::Failed, false);
    life.finish(index, BundlePhase::Failed);
    let problem = life.wish("prod", None, false).unwrap_err();
    let forward = life.forward("prod", None, false);
    assert_eq!(format!("{}: {}", problem.field, problem.message), forward);
    assert!(forward.starts_with("force: `1` has failed in `prod`, with `my-app-v1-rollback-"), "{forward}");
    let forced = life.wish("prod", None, true).unwrap();
    assert_eq!(crate::gate_context::version(&forced.spec), "1");
    assert_eq!(life.forward("prod", None, true), "new 1");
}

#[test]
fn a_second_rollback_while_one_is_under_way_makes_no_second_bundle() {
    let mut life = Life::of(&["1", "2", "3"]);
    let back = life.wish("prod", None, false).unwrap();
    let name = back.metadata.name.clone().unwrap();
    let index = life.add(back);
    let coming = format!("coming with {name}");
    assert_eq!(life.wish("prod", None, false).unwrap_err().message, coming, "nothing has happened yet");
    life.set(index, "dev", PromotionState::Verified, true);
    life.set(index, "prod", PromotionState::WaitingForMerge, false);
    assert_eq!(life.wish("prod", None, false).unwrap_err().message, coming, "its pull request is open");
    let other = life.wish("prod", Some("1"), false).unwrap();
    assert_eq!(crate::gate_context::version(&other.spec), "1", "another version is another wish");
    // It is in, but not yet verified: to go further back has to be meant.
    life.set(index, "prod", PromotionState::HealthChecking, true);
    let problem = life.wish("prod", None, false).unwrap_err();
    assert_eq!(problem.field, FORCE);
    assert!(problem.message.contains("back to `2` now, and is not verified there yet"), "{problem}");
    assert_eq!(crate::gate_context::version(&life.wish("prod", None, true).unwrap().spec), "1");
}

#[test]
fn the_past_is_told_in_the_order_in_which_it_happened() {
    let mut life = Life::of(&["1"]);
    let superseded = life.create("2");
    life.set(superseded, "dev", PromotionState::Verified, true);
    life.set(superseded, "prod", PromotionState::WaitingForMerge, false);
    life.finish(superseded, BundlePhase::Superseded);
    life.release("3", &["dev", "prod"]);
    let rejected = life.create("4");
    life.set(rejected, "prod", PromotionState::Failed, false);
    life.finish(rejected, BundlePhase::Failed);
    life.record(rejected, "prod").rejected = Some(true);
    // Another environment of the same Bundle failed for a reason of its own.
    life.set(rejected, "dev", PromotionState::Failed, false);
    life.release("5", &["prod"]);
    let coming = life.create("6");
    life.set(coming, "dev", PromotionState::WaitingForMerge, false);
    life.bundles.reverse();
    let told: Vec<String> = history(&life.bundles, None, usize::MAX)
        .iter()
        .map(|one| format!("{} {} {}", one.version, one.environment, one.outcome.as_str()))
        .collect();
    let wanted = [
        "6 dev WaitingForMerge",
        "5 prod Verified",
        "4 dev Failed",
        "4 prod Rejected",
        "3 prod Verified",
        "3 dev Verified",
        "2 dev Verified",
        "2 prod Superseded",
        "1 prod Verified",
        "1 staging Verified",
        "1 dev Verified",
    ];
    assert_eq!(told, wanted);
    // A rejection has a time of its own: somebody closed the pull request when the next version was in.
    let name = |bundle: &Bundle| crate::gate_context::version(&bundle.spec);
    let after = life.bundles.iter().find(|one| name(one) == "5").unwrap().status.clone().unwrap();
    let after = after.environments["prod"].verified_at.unwrap() + SignedDuration::from_secs(1);
    let rejected = life.bundles.iter().position(|one| name(one) == "4").unwrap();
    life.record(rejected, "prod").rejected_at = Some(after);
    let told: Vec<String> = history(&life.bundles, None, usize::MAX)
        .iter()
        .map(|one| format!("{} {}", one.version, one.environment))
        .collect();
    assert_eq!(told[..4], ["6 dev", "4 prod", "5 prod", "4 dev"]);
}

#[test]
fn what_is_on_its_way_is_found_behind_another_version() {
    let mut life = Life::of(&["1"]);
    for version in ["3", "2"] {
        let index = life.create(version);
        life.set(index, "staging", PromotionState::Verified, true);
        life.set(index, "prod", PromotionState::Promoting, false);
    }
    assert_eq!(life.forward("prod", Some("2"), false), "coming 2");
}

#[test]
fn an_outlook_names_the_gates_in_front_of_an_environment() {
    let mut life = Life::of(&["1"]);
    let index = life.create("2");
    let gate = |name: &str, environment: &str, when: &str| -> kardinal_api::kardinal::PolicyGate {
        super::yaml(&format!(
            "{{metadata: {{name: {name}, namespace: default, labels: {{kardinal.io/applies-to: {environment}}}}}, \
              spec: {{expression: 'true', when: {when}}}}}"
        ))
    };
    let gates = [
        gate("before-prod", "prod", "pre-deploy"),
        gate("after-prod", "prod", "post-deploy"),
        gate("after-staging", "staging", "post-deploy"),
    ];
    let (gates, bundles): (Vec<_>, Vec<&Bundle>) = (gates.iter().collect(), life.bundles.iter().collect());
    let outlook = outlook(&life.pipeline, bundles[index], &bundles, &gates, &[]).unwrap();
    let named: Vec<&[String]> = outlook.legs.iter().map(|leg| leg.gates.as_slice()).collect();
    assert_eq!(named, [&[] as &[String], &[], &["before-prod".to_owned(), "after-staging".to_owned()]]);
}

#[test]
fn what_came_of_a_promotion_is_a_word_and_what_was_not_proven_a_field() {
    let mut life = Life::of(&["1"]);
    let evidence = super::yaml("{notProven: 'nothing names the commit'}");
    life.record(0, "prod").evidence = Some(evidence);
    let told = serde_json::to_value(history(&life.bundles, None, usize::MAX)).unwrap();
    assert_eq!(told[0]["environment"], "prod");
    assert_eq!(
        (&told[0]["outcome"], &told[0]["notProven"]),
        (&"Verified".into(), &"nothing names the commit".into())
    );
    assert_eq!((&told[1]["outcome"], told[1].get("notProven")), (&"Verified".into(), None));
}
