//! Tables: what is observed on the left, what becomes of it on the right.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::forge::{READY, Repository, RepositorySpec};

use super::{Effect, Facts, Outcome, Plan, Snapshot, plan, report};
use crate::forge::RETRY;
use crate::sentence::Report;
use crate::why::{WaitOn, Who};

fn now() -> Timestamp {
    "2026-04-09T10:00:00.5Z".parse().unwrap()
}

fn repository() -> Repository {
    let mut repository = Repository::new("app", RepositorySpec::default());
    repository.metadata.namespace = Some("default".to_owned());
    repository.metadata.generation = Some(1);
    repository
}

fn seen<'a>(repository: &'a Repository, facts: Option<Facts>, problem: Option<&'a str>) -> Snapshot<'a> {
    Snapshot { repository, facts, problem, clone_prefix: "http://forge/git/", now: now() }
}

fn look(repository: &Repository, facts: Option<Facts>, problem: Option<&str>) -> Plan {
    plan(&seen(repository, facts, problem))
}

#[test]
fn a_repository_is_created_and_then_served() {
    let mut repository = repository();
    let plan = look(&repository, None, None);
    assert_eq!(plan.stages, [[Effect::Create { default_branch: "main".to_owned() }]]);
    let status = plan.status.unwrap();
    assert_eq!((status.clone_url, status.conditions[0].reason.as_str()), (None, "Creating"));
    let facts = Facts { default_branch: "main".to_owned(), head: Some("abc".to_owned()) };
    let plan = look(&repository, Some(facts.clone()), None);
    assert!(plan.effects().is_empty());
    let status = plan.status.unwrap();
    assert_eq!(status.clone_url.as_deref(), Some("http://forge/git/default/app.git"));
    assert_eq!(status.head.as_deref(), Some("abc"));
    assert_eq!((status.conditions[0].type_.as_str(), status.conditions[0].status.as_str()), (READY, "True"));
    repository.status = Some(status);
    assert_eq!(look(&repository, Some(facts.clone()), None), Plan::default());
    // Another default branch is followed.
    repository.spec.default_branch = Some("trunk".to_owned());
    let plan = look(&repository, Some(facts), None);
    assert_eq!(plan.stages, [[Effect::Create { default_branch: "trunk".to_owned() }]]);
}

#[test]
fn a_refused_repository_is_not_tried_for_ever() {
    let mut repository = repository();
    let plan = look(&repository, None, None);
    assert_eq!(plan.stages, [[Effect::Create { default_branch: "main".to_owned() }]]);
    let why = "`x.git` cannot be the name of a repository";
    let report_of =
        |repository: &Repository| report(&seen(repository, None, None), &Outcome::Refused(why.to_owned()));
    let refused = report_of(&repository);
    let status = refused.status.unwrap();
    assert_eq!(
        (status.conditions[0].reason.as_str(), status.conditions[0].message.as_str()),
        ("Refused", why)
    );
    assert!(refused.notes[0].warning);
    assert_eq!(refused.retry, None, "whoever changes it brings the next try about");
    repository.status = Some(status);
    assert_eq!(report_of(&repository), Report::default(), "that is written once");
}

#[test]
fn a_repository_that_is_not_used_is_looked_at_again_because_nobody_tells_that_it_was_mended() {
    let mut repository = repository();
    let facts = Facts { default_branch: "main".to_owned(), head: None };
    let problem = "repository `default/app` is not used: its folder is a link";
    let plan = look(&repository, None, Some(problem));
    assert!(plan.effects().is_empty() && plan.notes[0].warning);
    assert_eq!(plan.wake, Some(now() + RETRY));
    repository.status = plan.status;
    let again = look(&repository, None, Some(problem));
    assert_eq!((again.status, again.wake), (None, Some(now() + RETRY)));
    let mended = look(&repository, Some(facts), None);
    assert_eq!((mended.status.unwrap().conditions[0].reason.as_str(), mended.wake), ("Served", None));
}

#[test]
fn what_was_made_is_looked_at_and_what_failed_is_tried_again() {
    let repository = repository();
    let done = report(&seen(&repository, None, None), &Outcome::Done);
    assert_eq!(done, Report { retry: Some(SignedDuration::ZERO), ..Report::default() });
    let failed = report(&seen(&repository, None, None), &Outcome::Failed);
    let status = failed.status.unwrap();
    assert_eq!((failed.retry, status.conditions[0].reason.as_str()), (Some(RETRY), "Creating"));
    assert_eq!(status.waits.len(), 1, "{status:?}");
}

#[test]
fn whatever_waits_says_whose_turn_it_is() {
    let served = Facts { default_branch: "main".to_owned(), head: None };
    let creating = Some((WaitOn::Controller, "Creating", Who::Kardinal));
    let refused = Some((WaitOn::Action, "Refused", Who::Person));
    for (what, facts, problem, expected) in [
        ("not there", None, None, creating),
        ("another default branch", Some(Facts::default()), None, creating),
        ("not used", None, Some("its folder is a link"), refused),
        ("served", Some(served), None, None),
    ] {
        let mut repository = repository();
        let status = look(&repository, facts.clone(), problem).status.unwrap();
        let waits: Vec<_> =
            status.waits.iter().map(|wait| (wait.on, wait.reason.as_str(), wait.who)).collect();
        assert_eq!(waits, Vec::from_iter(expected), "{what}");
        assert!(status.waits.iter().all(|wait| wait.detail == status.conditions[0].message), "{what}");
        repository.status = Some(status);
        assert_eq!(look(&repository, facts.clone(), problem).status, None, "{what}: steady");
        repository.metadata.deletion_timestamp = Some(Time(now()));
        let going = look(&repository, facts, problem).status;
        assert!(going.is_none_or(|status| status.waits.is_empty()), "{what}: being deleted");
    }
}
