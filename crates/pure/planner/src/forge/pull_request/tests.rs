//! Tables: what is observed on the left, what becomes of it on the right.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::forge::{
    Desired, FileStatus, MERGEABLE, PullRequest, PullRequestFile, PullRequestSpec, PullRequestState,
    PullRequestStatus, Repository, RepositorySpec, RepositoryStatus,
};

use super::{Effect, Facts, Merge, Numbers, Outcome, Plan, Snapshot, is_compared, plan, report};
use crate::forge::RETRY;
use crate::sentence::Report;
use crate::why::{Subject, Wait, WaitOn, Who};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at("2026-04-09T10:00:00.5Z")
}

fn pull_request(desired: Option<Desired>) -> PullRequest {
    let spec = PullRequestSpec {
        repository: "app".to_owned(),
        head: "feature".to_owned(),
        base: "main".to_owned(),
        title: "Better".to_owned(),
        desired,
        merged_by: Some("alice".to_owned()),
        ..PullRequestSpec::default()
    };
    let mut pr = PullRequest::new("pr", spec);
    pr.metadata.namespace = Some("default".to_owned());
    pr.metadata.generation = Some(3);
    pr
}

/// The same with a number.
fn numbered(desired: Option<Desired>) -> PullRequest {
    let mut pr = pull_request(desired);
    pr.status = Some(PullRequestStatus { number: Some(1), ..PullRequestStatus::default() });
    pr
}

fn repository() -> Repository {
    let mut repository = Repository::new("app", RepositorySpec::default());
    repository.metadata.namespace = Some("default".to_owned());
    repository.metadata.generation = Some(1);
    repository
}

fn apart() -> Facts {
    Facts {
        head_tip: Some("head".to_owned()),
        base_tip: Some("base".to_owned()),
        files: vec![PullRequestFile { path: "a".to_owned(), status: FileStatus::Added }],
        additions: 3,
        deletions: 1,
        ..Facts::default()
    }
}

fn merged() -> Facts {
    Facts {
        contained: true,
        merged: Some(Merge { commit: "merge".to_owned(), at: Some(at("2026-04-09T09:59:00Z")) }),
        base_tip: Some("merge".to_owned()),
        files: Vec::new(),
        additions: 0,
        deletions: 0,
        ..apart()
    }
}

/// The numbers of a repository that has those of its pull requests on record.
fn numbers<'a>(pr: &PullRequest, taken: &'a [u64]) -> Numbers<'a> {
    let own = pr.status.as_ref().and_then(|status| status.number);
    let highest = taken.iter().copied().chain(own).max().unwrap_or_default();
    Numbers { taken, highest: Some(highest), is_on_disk: true, given: None }
}

fn snapshot<'a>(
    pull_request: &'a PullRequest,
    repository: Option<&'a Repository>,
    facts: Option<&'a Facts>,
    numbers: Numbers<'a>,
) -> Snapshot<'a> {
    Snapshot {
        pull_request,
        repository,
        facts,
        refused: None,
        numbers,
        merges: 0,
        url_prefix: "http://forge/",
        now: now(),
    }
}

fn plan_of(pr: &PullRequest, facts: Option<&Facts>, numbers: Numbers<'_>, merges: u32) -> Plan {
    let repository = repository();
    plan(&Snapshot { merges, ..snapshot(pr, Some(&repository), facts, numbers) })
}

fn plan_with(pr: &PullRequest, facts: Option<&Facts>, taken: &[u64]) -> Plan {
    plan_of(pr, facts, numbers(pr, taken), 0)
}

/// Plans, writes the status as the controller would, and gives the plan.
fn pass(pr: &mut PullRequest, facts: &Facts) -> Plan {
    let plan = plan_with(pr, Some(facts), &[]);
    if let Some(status) = &plan.status {
        pr.status = Some(status.clone());
    }
    plan
}

fn status(pr: &PullRequest) -> &PullRequestStatus {
    pr.status.as_ref().unwrap()
}

fn reason(status: &PullRequestStatus) -> &str {
    assert_eq!(status.conditions.len(), 1);
    assert_eq!(status.conditions[0].type_, MERGEABLE);
    &status.conditions[0].reason
}

#[test]
fn a_repository_that_is_gone_from_disk_although_its_status_says_otherwise_is_looked_at_again() {
    let (request, mut repository) = (numbered(Some(Desired::Merged)), repository());
    let wake = |repository: &Repository| {
        let numbers = Numbers { is_on_disk: false, ..numbers(&request, &[]) };
        plan(&snapshot(&request, Some(repository), None, numbers)).wake
    };
    assert_eq!(wake(&repository), None, "that it comes is told by its status");
    let clone_url = Some("http://forge/git/default/app.git".to_owned());
    repository.status = Some(RepositoryStatus { clone_url, ..RepositoryStatus::default() });
    assert_eq!(wake(&repository), Some(now() + RETRY));
}

#[test]
fn a_number_that_somebody_made_up_leaves_room_for_others() {
    let request = pull_request(None);
    for made_up in [u64::MAX, i64::MAX as u64, 1 << 53] {
        let taken = [2, made_up];
        let numbers = Numbers { taken: &taken, highest: Some(1), is_on_disk: true, given: None };
        let number = plan_of(&request, Some(&apart()), numbers, 0).status.and_then(|status| status.number);
        assert_eq!(number, Some(3), "beside {made_up}");
    }
}

#[test]
fn an_open_one_is_numbered_and_compared() {
    let mut pr = pull_request(None);
    let plan = plan_with(&pr, Some(&apart()), &[1, 7, 3]);
    let status = plan.status.clone().unwrap();
    assert_eq!(plan.stages, [[Effect::KeepNumber { number: 8 }]]);
    assert_eq!(status.number, Some(8));
    assert_eq!(status.url.as_deref(), Some("http://forge/default/app/pulls/8"));
    assert_eq!(status.state, Some(PullRequestState::Open));
    assert_eq!((status.head_commit.as_deref(), status.base_commit.as_deref()), (Some("head"), Some("base")));
    assert_eq!((status.mergeable, status.additions, status.deletions), (Some(true), Some(3), Some(1)));
    assert_eq!((status.observed_generation, status.files.len()), (Some(3), 1));
    assert_eq!((reason(&status), status.conditions[0].status.as_str()), ("Mergeable", "True"));
    // Once written, the number stays, and nothing is written again.
    pr.status = Some(status);
    let again = plan_with(&pr, Some(&apart()), &[8, 9]);
    assert_eq!(again, Plan::default());
}

#[test]
fn what_each_look_finds() {
    let conflict = Facts { conflicts: vec!["a".to_owned(), "b".to_owned()], ..apart() };
    let no_head = Facts { head_tip: None, ..apart() };
    let no_base = Facts { base_tip: None, ..apart() };
    let same = Facts { contained: true, ..merged() };
    use PullRequestState::{Closed, Open};
    for (name, desired, facts, state, expected, merges) in [
        ("open", Desired::Open, Some(&apart()), Open, "Mergeable", false),
        ("asked to merge", Desired::Merged, Some(&apart()), Open, "Mergeable", true),
        ("closed", Desired::Closed, Some(&apart()), Closed, "Closed", false),
        ("closed without facts", Desired::Closed, None, Closed, "Closed", false),
        ("conflict", Desired::Merged, Some(&conflict), Open, "Conflicts", false),
        ("no head", Desired::Merged, Some(&no_head), Open, "HeadMissing", false),
        ("no base", Desired::Merged, Some(&no_base), Open, "BaseMissing", false),
        ("never differed", Desired::Open, Some(&same), Open, "NothingToMerge", false),
        ("not on disk yet", Desired::Merged, None, Open, "RepositoryNotReady", false),
    ] {
        let plan = plan_with(&numbered(Some(desired)), facts, &[]);
        let status = plan.status.clone().unwrap();
        assert_eq!((status.state, reason(&status)), (Some(state), expected), "{name}");
        assert_eq!(plan.effects().len(), usize::from(merges), "{name}");
        assert_eq!(status.number, Some(1), "{name}");
        assert_eq!(plan.notes.len(), 1, "{name}");
    }
}

#[test]
fn a_missing_repository_is_said() {
    let pr = pull_request(None);
    let plan = plan(&Snapshot {
        pull_request: &pr,
        repository: None,
        facts: None,
        refused: None,
        numbers: Numbers { highest: Some(0), ..Numbers::default() },
        merges: 0,
        url_prefix: "",
        now: now(),
    });
    assert_eq!(reason(&plan.status.unwrap()), "RepositoryMissing");
    assert!(plan.notes[0].warning);
}

#[test]
fn branches_that_nobody_can_compare_have_a_status_that_says_why() {
    let repository = repository();
    for (desired, state, expected) in [
        (Desired::Open, PullRequestState::Open, "Refused"),
        (Desired::Merged, PullRequestState::Open, "Refused"),
        (Desired::Closed, PullRequestState::Closed, "Closed"),
    ] {
        let pr = pull_request(Some(desired));
        let plan = plan(&Snapshot {
            pull_request: &pr,
            repository: Some(&repository),
            facts: None,
            refused: Some("`a..b` is not a name that Git allows for a branch"),
            numbers: numbers(&pr, &[4]),
            merges: 0,
            url_prefix: "",
            now: now(),
        });
        let status = plan.status.clone().unwrap();
        assert_eq!((status.state, reason(&status), status.number), (Some(state), expected, Some(5)));
        assert_eq!(status.conditions[0].message.contains("`a..b`"), expected == "Refused");
        assert_eq!(plan.stages, [[Effect::KeepNumber { number: 5 }]]);
        assert_eq!(plan.notes[0].warning, expected == "Refused");
    }
}

#[test]
fn what_is_finished_is_not_compared_again() {
    use PullRequestState::{Closed, Merged, Open};
    for (state, desired, expected) in [
        (None, Desired::Open, true),
        (None, Desired::Closed, true),
        (Some(Open), Desired::Open, true),
        (Some(Open), Desired::Closed, true),
        (Some(Closed), Desired::Open, true),
        (Some(Closed), Desired::Merged, true),
        (Some(Closed), Desired::Closed, false),
        (Some(Merged), Desired::Open, false),
        (Some(Merged), Desired::Merged, false),
    ] {
        let mut pr = pull_request(Some(desired));
        pr.status =
            state.map(|state| PullRequestStatus { state: Some(state), ..PullRequestStatus::default() });
        assert_eq!(is_compared(&pr), expected, "{state:?} {desired:?}");
        // Without a look the plan must be the same as with one.
        if !expected {
            assert_eq!(plan_with(&pr, None, &[]), plan_with(&pr, Some(&merged()), &[]), "{state:?}");
        }
    }
}

#[test]
fn conflicts_name_files_but_not_thousands() {
    let files: Vec<String> = (0..12).map(|n| format!("f{n}")).collect();
    let facts = Facts { conflicts: files, ..apart() };
    let status = plan_with(&pull_request(Some(Desired::Merged)), Some(&facts), &[]).status.unwrap();
    let message = &status.conditions[0].message;
    assert!(message.contains("`f0`, `f1`") && message.contains("and 2 more"), "{message}");
    assert!(message.contains("merge `main` into `feature`"), "{message}");
    assert_eq!(status.mergeable, Some(false));
}

#[test]
fn a_merge_is_asked_for_and_then_found() {
    let mut pr = numbered(Some(Desired::Merged));
    let plan = pass(&mut pr, &apart());
    assert_eq!(
        plan.stages,
        [[Effect::Merge {
            base: "main".to_owned(),
            head: "feature".to_owned(),
            expected_base: "base".to_owned(),
            expected_head: "head".to_owned(),
            message: "Merge pull request #1 from feature\n\nBetter\n".to_owned(),
            author: "alice".to_owned(),
            email: "alice@localhost".to_owned(),
            time: at("2026-04-09T10:00:00Z"),
        }]]
    );
    let plan = pass(&mut pr, &merged());
    assert!(plan.effects().is_empty());
    let status = status(&pr);
    assert_eq!(status.state, Some(PullRequestState::Merged));
    assert_eq!(status.merge_commit.as_deref(), Some("merge"));
    assert_eq!(status.merged_by.as_deref(), Some("alice"));
    assert_eq!(status.merged_at, Some(at("2026-04-09T09:59:00Z")));
    assert_eq!((status.head_commit.as_deref(), status.base_commit.as_deref()), (Some("head"), Some("base")));
    assert_eq!((status.files.len(), status.additions), (1, Some(3)), "what it brought still stands there");
    assert!(!plan.notes[0].warning);
}

#[test]
fn a_merge_whose_report_was_lost_is_found() {
    let mut pr = numbered(Some(Desired::Merged));
    let plan = pass(&mut pr, &merged());
    assert!(plan.effects().is_empty());
    assert_eq!(status(&pr).state, Some(PullRequestState::Merged));
}

#[test]
fn a_change_that_was_pushed_counts_as_merged() {
    let mut pr = pull_request(None);
    pass(&mut pr, &apart());
    pass(&mut pr, &Facts { merged: Some(Merge { commit: "head".to_owned(), at: None }), ..merged() });
    assert_eq!(status(&pr).state, Some(PullRequestState::Merged));
    assert_eq!(status(&pr).merged_at, Some(at("2026-04-09T10:00:00Z")));
}

#[test]
fn a_branch_that_went_after_its_merge_was_merged() {
    let mut pr = pull_request(None);
    pass(&mut pr, &apart());
    pass(&mut pr, &Facts { head_tip: None, ..merged() });
    assert_eq!(status(&pr).state, Some(PullRequestState::Merged));
    assert_eq!(status(&pr).head_commit.as_deref(), Some("head"));
}

#[test]
fn a_branch_that_was_set_back_is_not_merged() {
    for desired in [Desired::Open, Desired::Merged] {
        let mut pr = pull_request(Some(desired));
        pass(&mut pr, &apart());
        let plan = pass(&mut pr, &Facts { merged: None, ..merged() });
        assert_eq!((plan.effects().len(), reason(status(&pr))), (0, "NothingToMerge"));
        assert_eq!(status(&pr).state, Some(PullRequestState::Open));
    }
}

#[test]
fn a_merge_is_final() {
    let mut pr = pull_request(Some(Desired::Merged));
    pass(&mut pr, &merged());
    let before = status(&pr).clone();
    for desired in [Desired::Open, Desired::Closed, Desired::Merged] {
        pr.spec.desired = Some(desired);
        for facts in [apart(), merged(), Facts::default()] {
            let plan = pass(&mut pr, &facts);
            assert_eq!((plan.effects().len(), plan.notes.len()), (0, 0));
            assert_eq!(status(&pr), &before);
        }
    }
}

#[test]
fn a_closed_one_can_be_opened_again() {
    let mut pr = pull_request(Some(Desired::Closed));
    pr.spec.closed_by = Some("bob".to_owned());
    pass(&mut pr, &apart());
    assert_eq!(status(&pr).closed_at, Some(at("2026-04-09T10:00:00Z")));
    assert_eq!(status(&pr).closed_by.as_deref(), Some("bob"));
    // What happens to the branches meanwhile is not its business.
    assert_eq!(pass(&mut pr, &merged()).status, None);
    pr.spec.desired = Some(Desired::Open);
    pass(&mut pr, &apart());
    assert_eq!((status(&pr).state, status(&pr).closed_at), (Some(PullRequestState::Open), None));
    assert_eq!(status(&pr).closed_by, None);
    assert_eq!(status(&pr).number, Some(1));
}

#[test]
fn only_the_commit_that_was_asked_for_is_merged() {
    let mut pr = numbered(Some(Desired::Merged));
    pr.spec.expected_head = Some("older".to_owned());
    let plan = pass(&mut pr, &apart());
    assert_eq!((plan.effects().len(), reason(status(&pr))), (0, "HeadMoved"));
    pr.spec.expected_head = Some("head".to_owned());
    assert_eq!(pass(&mut pr, &apart()).effects().len(), 1);
    pr.spec.desired = Some(Desired::Open);
    pr.spec.expected_head = Some("older".to_owned());
    pass(&mut pr, &apart());
    assert_eq!(reason(status(&pr)), "Mergeable");
}

#[test]
fn long_lists_of_files_are_cut() {
    let file = PullRequestFile { path: "a".to_owned(), status: FileStatus::Modified };
    let facts = Facts { files: vec![file; 5000], ..apart() };
    assert_eq!(plan_with(&pull_request(None), Some(&facts), &[]).status.unwrap().files.len(), 1000);
}

#[test]
fn conditions_keep_the_time_of_their_last_change() {
    let mut pr = pull_request(None);
    pass(&mut pr, &apart());
    let first = status(&pr).conditions[0].clone();
    pr.metadata.generation = Some(4);
    let repository = repository();
    let facts = apart();
    let plan = plan(&Snapshot {
        pull_request: &pr,
        repository: Some(&repository),
        facts: Some(&facts),
        refused: None,
        numbers: numbers(&pr, &[]),
        merges: 0,
        url_prefix: "http://forge",
        now: at("2026-05-01T00:00:00Z"),
    });
    let later = plan.status.unwrap();
    assert_eq!(later.conditions[0].last_transition_time, first.last_transition_time);
    assert_eq!(later.observed_generation, Some(4));
    assert!(plan.notes.is_empty());
}

#[test]
fn a_number_is_never_given_twice_and_kept_before_it_is_shown() {
    let kept = |number| vec![vec![Effect::KeepNumber { number }]];
    for (what, own, numbers, number, stages) in [
        ("the first one", None, (&[] as &[u64], Some(0), true, None), Some(1), kept(1)),
        ("after those that are there", None, (&[1, 7], Some(3), true, None), Some(8), kept(8)),
        ("after one that was deleted", None, (&[1], Some(9), true, None), Some(10), kept(10)),
        ("given before a crash", None, (&[1], Some(2), true, Some(2)), Some(2), vec![]),
        ("given while nothing could be kept", None, (&[], Some(0), true, Some(1)), Some(1), kept(1)),
        ("given, but another one has it", None, (&[2], Some(2), true, Some(2)), Some(3), kept(3)),
        ("nowhere to keep it", None, (&[4], Some(0), false, None), Some(5), vec![]),
        ("nobody knows which were given", None, (&[1], None, true, None), None, vec![]),
        ("nobody knows, but it was given", None, (&[1], None, true, Some(2)), Some(2), vec![]),
        ("it has one", Some(3), (&[1], Some(3), true, None), Some(3), vec![]),
        ("it has one that is not kept", Some(3), (&[1], Some(2), true, None), Some(3), kept(3)),
        ("it has one, and nobody can say more", Some(3), (&[1], None, true, None), Some(3), vec![]),
    ] {
        let mut pr = pull_request(None);
        pr.status =
            own.map(|number| PullRequestStatus { number: Some(number), ..PullRequestStatus::default() });
        let (taken, highest, is_on_disk, given) = numbers;
        let plan = plan_of(&pr, Some(&apart()), Numbers { taken, highest, is_on_disk, given }, 0);
        assert_eq!(plan.status.and_then(|status| status.number), number, "{what}");
        assert_eq!(plan.stages, stages, "{what}");
        assert_eq!(plan.wake, highest.is_none().then(|| now() + RETRY), "{what}");
    }
}

#[test]
fn a_merge_waits_until_the_number_that_it_names_is_written() {
    let mut pr = pull_request(Some(Desired::Merged));
    let plan = pass(&mut pr, &apart());
    assert_eq!(plan.stages, [[Effect::KeepNumber { number: 1 }]]);
    assert_eq!((plan.wake, plan.notes.len()), (Some(now()), 0), "the Event is about the merge");
    let plan = pass(&mut pr, &apart());
    assert!(matches!(plan.effects()[..], [Effect::Merge { .. }]), "{plan:?}");
    let plan = pass(&mut pr, &merged());
    assert_eq!((reason(status(&pr)), plan.notes.len()), ("Merged", 1));
}

#[test]
fn a_branch_that_moves_again_and_again_is_left_to_a_later_pass() {
    for (merges, tried) in [(0, 1), (2, 1), (3, 0)] {
        let pr = numbered(Some(Desired::Merged));
        let plan = plan_of(&pr, Some(&apart()), numbers(&pr, &[]), merges);
        assert_eq!((plan.effects().len(), plan.wake), (tried, None), "after {merges}");
        assert_eq!(reason(&plan.status.unwrap()), "Mergeable", "after {merges}");
    }
}

#[test]
fn what_was_merged_is_looked_at_and_what_failed_is_tried_again() {
    use Outcome::{Done, Failed};
    let later = |pause| Report { retry: Some(pause), ..Report::default() };
    let merge = plan_with(&numbered(Some(Desired::Merged)), Some(&apart()), &[]).effects()[0].clone();
    let keep = Effect::KeepNumber { number: 1 };
    let as_planned = |planned: &Plan, retry| Report {
        status: planned.status.clone(),
        notes: planned.notes.clone(),
        retry,
    };
    for (what, has_number, done, expected) in [
        ("nothing was to do", false, vec![], Ok(None)),
        ("kept", false, vec![(&keep, Done)], Ok(None)),
        ("not kept", false, vec![(&keep, Failed)], Err(RETRY)),
        ("not kept, and the status has it", true, vec![(&keep, Failed)], Ok(Some(RETRY))),
        ("merged", true, vec![(&keep, Done), (&merge, Done)], Err(SignedDuration::ZERO)),
        ("merged and not kept", true, vec![(&keep, Failed), (&merge, Done)], Err(SignedDuration::ZERO)),
        ("not merged, which is told", true, vec![(&keep, Done), (&merge, Failed)], Ok(Some(RETRY))),
    ] {
        let pr = if has_number { numbered(None) } else { pull_request(None) };
        let (repository, facts) = (repository(), apart());
        let snapshot = snapshot(&pr, Some(&repository), Some(&facts), numbers(&pr, &[]));
        let planned = plan(&snapshot);
        let done: Vec<(Effect, Outcome)> =
            done.into_iter().map(|(effect, outcome)| (effect.clone(), outcome)).collect();
        let expected = expected.map_or_else(later, |retry| as_planned(&planned, retry));
        assert_eq!(report(&snapshot, planned, &done), expected, "{what}");
    }
}

#[test]
fn a_number_that_the_status_has_holds_up_no_merge() {
    let pr = numbered(Some(Desired::Merged));
    let plan = plan_of(&pr, Some(&apart()), Numbers { highest: Some(0), ..numbers(&pr, &[]) }, 0);
    assert!(
        matches!(&plan.stages[..], [stage] if matches!(stage[..], [Effect::KeepNumber { number: 1 }, Effect::Merge { .. }])),
        "{plan:?}"
    );
}

/// What it waits for: on what, how it stands, the thing, whose turn it is.
fn waits(status: &PullRequestStatus) -> Vec<(WaitOn, &str, &str, Who)> {
    let all = status.waits.iter();
    all.map(|wait| (wait.on, wait.reason.as_str(), wait.subject.name.as_str(), wait.who)).collect()
}

#[test]
fn whatever_waits_says_for_what_and_whose_turn_it_is() {
    use Desired::{Closed, Merged, Open};
    let conflict = Facts { conflicts: vec!["a".to_owned()], ..apart() };
    let no_head = Facts { head_tip: None, ..apart() };
    let no_base = Facts { base_tip: None, ..apart() };
    let nothing = Facts { contained: true, ..apart() };
    let (here, merging, apart, refused) = (Some(repository()), Some("older"), apart(), Some("it is a link"));
    let coming = (WaitOn::Controller, "RepositoryNotReady", "app", Who::Kardinal);
    let needs = |reason, name| vec![(WaitOn::Action, reason, name, Who::Person)];
    for (what, desired, repository, facts, expected_head, refused, expected) in [
        (
            "review",
            Open,
            &here,
            Some(&apart),
            None,
            None,
            vec![(WaitOn::PullRequest, "Review", "PR #1", Who::Person)],
        ),
        (
            "merge",
            Merged,
            &here,
            Some(&apart),
            None,
            None,
            vec![(WaitOn::PullRequest, "Merging", "PR #1", Who::Kardinal)],
        ),
        ("refused", Open, &here, None, None, refused, needs("Refused", "app")),
        ("coming", Merged, &here, None, None, None, vec![coming]),
        ("missing", Open, &None, None, None, None, needs("RepositoryMissing", "app")),
        ("no head", Merged, &here, Some(&no_head), None, None, needs("HeadMissing", "feature")),
        ("no base", Open, &here, Some(&no_base), None, None, needs("BaseMissing", "main")),
        ("nothing", Open, &here, Some(&nothing), None, None, needs("NothingToMerge", "feature")),
        ("conflict", Merged, &here, Some(&conflict), None, None, needs("Conflicts", "feature")),
        ("moved", Merged, &here, Some(&apart), merging, None, needs("HeadMoved", "PR #1")),
        ("merged", Merged, &here, Some(&merged()), None, None, vec![]),
        ("closed", Closed, &here, Some(&apart), None, None, vec![]),
    ] {
        let mut pr = numbered(Some(desired));
        pr.spec.expected_head = expected_head.map(str::to_owned);
        let known = numbers(&pr, &[]);
        let seen = Snapshot { refused, ..snapshot(&pr, repository.as_ref(), facts, known) };
        let status = plan(&seen).status.unwrap();
        assert_eq!(waits(&status), expected, "{what}");
        let words =
            |wait: &Wait| !wait.detail.is_empty() && (wait.basis.is_some() || wait.on == WaitOn::Controller);
        assert!(status.waits.iter().all(words), "{what}: {:?}", status.waits);
        // A steady one costs no write, and one that is being deleted waits for nothing.
        let written = PullRequest { status: Some(status), ..pr.clone() };
        let again = Snapshot { pull_request: &written, ..seen.clone() };
        assert_eq!(plan(&again).status, None, "{what}");
        let mut going = written.clone();
        going.metadata.deletion_timestamp = Some(Time(now()));
        let status = plan(&Snapshot { pull_request: &going, ..seen }).status;
        assert!(status.is_none_or(|status| status.waits.is_empty()), "{what}");
    }
}

#[test]
fn it_is_the_turn_of_whoever_mends_a_repository_or_moves_a_branch() {
    let pr = numbered(Some(Desired::Merged));
    let mut repository = repository();
    let subject = Subject::object("Repository", "app");
    let refused = Wait::new(WaitOn::Action, "Refused", subject, Who::Person);
    repository.status = Some(RepositoryStatus { waits: vec![refused], ..RepositoryStatus::default() });
    let status = plan(&snapshot(&pr, Some(&repository), None, numbers(&pr, &[]))).status.unwrap();
    assert_eq!(waits(&status), [(WaitOn::Controller, "RepositoryNotReady", "app", Who::Person)]);
    let status = plan_of(&pr, Some(&apart()), numbers(&pr, &[]), 3).status.unwrap();
    assert_eq!(waits(&status), [(WaitOn::PullRequest, "Merging", "PR #1", Who::Outside)]);
}
