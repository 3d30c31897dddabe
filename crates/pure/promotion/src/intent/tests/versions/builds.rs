//! Versions that only their content tells apart: the same tag of the first image, and something else in it or beside it.

use super::ledger::{delete_rollbacks, note_down, without};
use super::*;
use crate::intent::way_back;

const DIGESTS: [&str; 3] = ["a", "b", "c"];

impl Life {
    /// A Bundle with two images, verified everywhere.
    fn pair(&mut self, name: &str, app: &str, worker: &str) {
        let at = self.create(name);
        let images = &mut self.bundles[at].spec.artifacts.images;
        images[0].reference = format!("ghcr.io/myorg/my-app:{app}");
        let mut second = images[0].clone();
        second.name = "worker".to_owned();
        second.reference = format!("ghcr.io/myorg/worker:{worker}");
        images.push(second);
        self.verify(at, &ALL);
        note_down(self);
    }

    /// A build of the same tag, verified everywhere.
    fn build(&mut self, digest: &str) {
        let at = self.create(digest);
        let image = &mut self.bundles[at].spec.artifacts.images[0];
        image.reference = "ghcr.io/myorg/my-app:5.0".to_owned();
        image.digest = Some(format!("sha256:{}", digest.repeat(64)));
        self.verify(at, &ALL);
        note_down(self);
    }

    /// Which build a Bundle carries.
    fn built(bundle: &Bundle) -> &str {
        bundle.spec.artifacts.images[0].digest.as_deref().unwrap().get(7..8).unwrap()
    }
}

fn pairs() -> Life {
    let mut life = Life::new();
    life.pair("first", "1.0", "1");
    life.pair("middle", "1.0", "2");
    life.pair("last", "1.1", "2");
    life
}

#[test]
fn a_deleted_predecessor_is_missed_although_another_bundle_has_its_first_tag() {
    let mut life = pairs();
    life.bundles.remove(1);
    note_down(&mut life);
    let problem = life.wish("prod", None, false).unwrap_err();
    assert_eq!(problem.field, FORCE);
    assert!(problem.message.contains("`prod` had `1.0` before, which `middle` brought"), "{problem}");
    assert!(problem.hint.as_ref().unwrap().contains("to `1.0` of `first`"), "{problem}");
    let forced = life.wish("prod", None, true).unwrap();
    assert_eq!(forced.spec.artifacts, life.named("first").spec.artifacts);
    // A rollback by itself tells of it.
    let bundles: Vec<&Bundle> = life.bundles.iter().collect();
    let current = life.named("last");
    let way = way_back(&life.pipeline, &bundles, "prod", current, verified_before(&bundles, "prod", current));
    assert_eq!(way.lost.unwrap().bundle, "middle");
    assert_eq!(way.good.unwrap().metadata.name.as_deref(), Some("first"));
}

#[test]
fn another_bundle_with_all_that_a_deleted_one_carried_takes_its_place() {
    let mut life = pairs();
    let mut copy = life.bundles.remove(1);
    copy.metadata.name = Some("copy".to_owned());
    life.bundles.insert(1, copy);
    let back = life.wish("prod", None, false).unwrap();
    assert_eq!(back.spec.artifacts, life.named("copy").spec.artifacts);
}

#[test]
fn records_without_content_are_read_by_their_version() {
    let mut life = pairs();
    without(&mut life, &["content", "forgottenUntil"]);
    let back = life.wish("prod", None, false).unwrap();
    assert_eq!(back.spec.artifacts, life.named("middle").spec.artifacts);
    life.bundles.remove(1);
    let back = life.wish("prod", None, false).unwrap();
    assert_eq!(back.spec.artifacts, life.named("first").spec.artifacts);
    // Two builds of one version were one for whoever wrote the record.
    let mut life = Life::of(&["4.0"]);
    DIGESTS[..2].iter().for_each(|digest| life.build(digest));
    let status = life.pipeline.status.as_mut().unwrap();
    for record in &mut status.environments {
        record.before = Some(record.earlier.pop().unwrap());
    }
    without(&mut life, &["content", "forgottenUntil"]);
    for _ in 0..2 {
        assert_eq!(Life::built(&life.wish("prod", None, false).unwrap()), "a");
        assert_eq!(life.forward("prod", Some("a"), false), "new 5.0");
        note_down(&mut life);
    }
}

#[test]
fn a_build_that_a_deleted_rollback_took_back_stays_so_although_a_good_one_has_its_tag() {
    let mut life = Life::of(&["4.0"]);
    DIGESTS[..2].iter().for_each(|digest| life.build(digest));
    let back = life.wish("prod", None, false).unwrap();
    assert_eq!(Life::built(&back), "a");
    life.bring(back, "prod");
    note_down(&mut life);
    life.build("c");
    delete_rollbacks(&mut life);
    let refused = life.forward("prod", Some("b"), false);
    assert!(refused.starts_with("force: `5.0` was taken back in"), "{refused}");
    assert_eq!(life.wish("prod", Some("b"), false).unwrap_err().field, FORCE);
    assert_eq!(life.forward("prod", Some("a"), false), "new 5.0");
    assert_eq!(Life::built(&life.wish("prod", None, false).unwrap()), "a", "from one build to another");
    life.release("6.0", &ALL);
    note_down(&mut life);
    assert_eq!(Life::built(&life.wish("prod", None, false).unwrap()), "c");
    life.bundles.retain(|one| one.metadata.name.as_deref() != Some("c"));
    let problem = life.wish("prod", None, false).unwrap_err();
    assert!(problem.message.contains("`prod` had `5.0` before, which `c` brought"), "{problem}");
    assert_eq!(
        Life::built(&life.wish("prod", None, true).unwrap()),
        "a",
        "never the one that was taken back"
    );
}

#[test]
fn a_deleted_rollback_to_another_build_is_remembered_as_that_build() {
    let mut life = Life::new();
    DIGESTS[..2].iter().for_each(|digest| life.build(digest));
    let back = life.wish("prod", None, false).unwrap();
    life.bring(back, "prod");
    note_down(&mut life);
    delete_rollbacks(&mut life);
    let refused = life.forward("prod", Some("b"), false);
    assert!(refused.starts_with("force: `5.0` was taken back in"), "{refused}");
    assert_eq!(life.forward("prod", Some("a"), false), "new 5.0");
}
