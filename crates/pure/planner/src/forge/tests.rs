//! Tables: what is observed on the left, what becomes of it on the right.

use jiff::Timestamp;
use kardinal_api::forge::{
    Desired, FileStatus, MERGEABLE, PullRequest, PullRequestFile, PullRequestSpec, PullRequestState,
    PullRequestStatus, READY, Repository, RepositorySpec,
};

use super::{
    Merge, PullRequestEffect, PullRequestPlan, PullRequestSnapshot, RepoFacts, RepositoryEffect,
    RepositoryFacts, RepositoryPlan, RepositorySnapshot, is_compared, plan_pull_request, plan_repository,
    protects,
};

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

fn repository() -> Repository {
    let spec = RepositorySpec {
        protected_branches: vec!["main".to_owned(), "env/*".to_owned()],
        ..RepositorySpec::default()
    };
    let mut repository = Repository::new("app", spec);
    repository.metadata.namespace = Some("default".to_owned());
    repository.metadata.generation = Some(1);
    repository
}

fn apart() -> RepoFacts {
    RepoFacts {
        head_tip: Some("head".to_owned()),
        base_tip: Some("base".to_owned()),
        files: vec![PullRequestFile { path: "a".to_owned(), status: FileStatus::Added }],
        additions: 3,
        deletions: 1,
        ..RepoFacts::default()
    }
}

fn merged() -> RepoFacts {
    RepoFacts {
        contained: true,
        merged: Some(Merge { commit: "merge".to_owned(), at: Some(at("2026-04-09T09:59:00Z")) }),
        base_tip: Some("merge".to_owned()),
        files: Vec::new(),
        additions: 0,
        deletions: 0,
        ..apart()
    }
}

fn plan_with(pr: &PullRequest, facts: Option<&RepoFacts>, taken: &[u64]) -> PullRequestPlan {
    let repository = repository();
    plan_pull_request(&PullRequestSnapshot {
        pull_request: pr,
        repository: Some(&repository),
        facts,
        refused: None,
        numbers_taken: taken,
        url_prefix: "http://forge/",
        now: now(),
    })
}

/// Plans, writes the status as the controller would, and gives the plan.
fn pass(pr: &mut PullRequest, facts: &RepoFacts) -> PullRequestPlan {
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
fn an_open_one_is_numbered_and_compared() {
    let mut pr = pull_request(None);
    let plan = plan_with(&pr, Some(&apart()), &[1, 7, 3]);
    let told = plan.status.clone().unwrap();
    assert!(plan.effects().is_empty());
    assert_eq!(told.number, Some(8));
    assert_eq!(told.url.as_deref(), Some("http://forge/default/app/pulls/8"));
    assert_eq!(told.state, Some(PullRequestState::Open));
    assert_eq!((told.head_commit.as_deref(), told.base_commit.as_deref()), (Some("head"), Some("base")));
    assert_eq!((told.mergeable, told.additions, told.deletions), (Some(true), Some(3), Some(1)));
    assert_eq!((told.observed_generation, told.files.len()), (Some(3), 1));
    assert_eq!((reason(&told), told.conditions[0].status.as_str()), ("Mergeable", "True"));
    // Once written, the number stays, and nothing is written again.
    pr.status = Some(told);
    let again = plan_with(&pr, Some(&apart()), &[8, 9]);
    assert_eq!(again, PullRequestPlan::default());
}

#[test]
fn what_each_look_finds() {
    let conflict = RepoFacts { conflicts: vec!["a".to_owned(), "b".to_owned()], ..apart() };
    let no_head = RepoFacts { head_tip: None, ..apart() };
    let no_base = RepoFacts { base_tip: None, ..apart() };
    let same = RepoFacts { contained: true, ..merged() };
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
        let plan = plan_with(&pull_request(Some(desired)), facts, &[]);
        let told = plan.status.clone().unwrap();
        assert_eq!((told.state, reason(&told)), (Some(state), expected), "{name}");
        assert_eq!(plan.effects().len(), usize::from(merges), "{name}");
        assert_eq!(told.number, Some(1), "{name}");
        assert_eq!(plan.notes.len(), 1, "{name}");
    }
}

#[test]
fn a_missing_repository_is_said() {
    let pr = pull_request(None);
    let plan = plan_pull_request(&PullRequestSnapshot {
        pull_request: &pr,
        repository: None,
        facts: None,
        refused: None,
        numbers_taken: &[],
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
        let plan = plan_pull_request(&PullRequestSnapshot {
            pull_request: &pr,
            repository: Some(&repository),
            facts: None,
            refused: Some("`a..b` is not a name that Git allows for a branch"),
            numbers_taken: &[4],
            url_prefix: "",
            now: now(),
        });
        let told = plan.status.clone().unwrap();
        assert_eq!((told.state, reason(&told), told.number), (Some(state), expected, Some(5)));
        assert_eq!(told.conditions[0].message.contains("`a..b`"), expected == "Refused");
        assert_eq!((plan.effects().len(), plan.notes[0].warning), (0, expected == "Refused"));
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
    let facts = RepoFacts { conflicts: files, ..apart() };
    let told = plan_with(&pull_request(Some(Desired::Merged)), Some(&facts), &[]).status.unwrap();
    let message = &told.conditions[0].message;
    assert!(message.contains("`f0`, `f1`") && message.contains("and 2 more"), "{message}");
    assert!(message.contains("merge `main` into `feature`"), "{message}");
    assert_eq!(told.mergeable, Some(false));
}

#[test]
fn a_merge_is_asked_for_and_then_found() {
    let mut pr = pull_request(Some(Desired::Merged));
    let plan = pass(&mut pr, &apart());
    assert_eq!(
        plan.stages,
        [[PullRequestEffect::Merge {
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
    let told = status(&pr);
    assert_eq!(told.state, Some(PullRequestState::Merged));
    assert_eq!(told.merge_commit.as_deref(), Some("merge"));
    assert_eq!(told.merged_by.as_deref(), Some("alice"));
    assert_eq!(told.merged_at, Some(at("2026-04-09T09:59:00Z")));
    assert_eq!((told.head_commit.as_deref(), told.base_commit.as_deref()), (Some("head"), Some("base")));
    assert_eq!((told.files.len(), told.additions), (1, Some(3)), "what it brought is still told");
    assert!(!plan.notes[0].warning);
}

#[test]
fn a_merge_whose_report_was_lost_is_found() {
    let mut pr = pull_request(Some(Desired::Merged));
    let plan = pass(&mut pr, &merged());
    assert!(plan.effects().is_empty());
    assert_eq!(status(&pr).state, Some(PullRequestState::Merged));
}

#[test]
fn a_change_that_was_pushed_counts_as_merged() {
    let mut pr = pull_request(None);
    pass(&mut pr, &apart());
    pass(&mut pr, &RepoFacts { merged: Some(Merge { commit: "head".to_owned(), at: None }), ..merged() });
    assert_eq!(status(&pr).state, Some(PullRequestState::Merged));
    assert_eq!(status(&pr).merged_at, Some(at("2026-04-09T10:00:00Z")));
}

#[test]
fn a_branch_that_went_after_its_merge_was_merged() {
    let mut pr = pull_request(None);
    pass(&mut pr, &apart());
    pass(&mut pr, &RepoFacts { head_tip: None, ..merged() });
    assert_eq!(status(&pr).state, Some(PullRequestState::Merged));
    assert_eq!(status(&pr).head_commit.as_deref(), Some("head"));
}

#[test]
fn a_branch_that_was_set_back_is_not_merged() {
    for desired in [Desired::Open, Desired::Merged] {
        let mut pr = pull_request(Some(desired));
        pass(&mut pr, &apart());
        let plan = pass(&mut pr, &RepoFacts { merged: None, ..merged() });
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
        for facts in [apart(), merged(), RepoFacts::default()] {
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
    let mut pr = pull_request(Some(Desired::Merged));
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
    let facts = RepoFacts { files: vec![file; 5000], ..apart() };
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
    let plan = plan_pull_request(&PullRequestSnapshot {
        pull_request: &pr,
        repository: Some(&repository),
        facts: Some(&facts),
        refused: None,
        numbers_taken: &[1],
        url_prefix: "http://forge",
        now: at("2026-05-01T00:00:00Z"),
    });
    let later = plan.status.unwrap();
    assert_eq!(later.conditions[0].last_transition_time, first.last_transition_time);
    assert_eq!(later.observed_generation, Some(4));
    assert!(plan.notes.is_empty());
}

fn look(repository: &Repository, facts: Option<RepositoryFacts>, problem: Option<&str>) -> RepositoryPlan {
    plan_repository(&RepositorySnapshot {
        repository,
        facts,
        problem,
        clone_prefix: "http://forge/git/",
        now: now(),
    })
}

#[test]
fn a_repository_is_created_and_then_served() {
    let mut repository = repository();
    let plan = look(&repository, None, None);
    assert_eq!(plan.stages, [[RepositoryEffect::Create { default_branch: "main".to_owned() }]]);
    let told = plan.status.unwrap();
    assert_eq!((told.clone_url, told.conditions[0].reason.as_str()), (None, "Creating"));
    let facts = RepositoryFacts { default_branch: "main".to_owned(), head: Some("abc".to_owned()) };
    let plan = look(&repository, Some(facts.clone()), None);
    assert!(plan.effects().is_empty());
    let told = plan.status.unwrap();
    assert_eq!(told.clone_url.as_deref(), Some("http://forge/git/default/app.git"));
    assert_eq!(told.head.as_deref(), Some("abc"));
    assert_eq!((told.conditions[0].type_.as_str(), told.conditions[0].status.as_str()), (READY, "True"));
    repository.status = Some(told);
    assert_eq!(look(&repository, Some(facts.clone()), None), RepositoryPlan::default());
    // Another default branch is followed.
    repository.spec.default_branch = Some("trunk".to_owned());
    let plan = look(&repository, Some(facts), None);
    assert_eq!(plan.stages, [[RepositoryEffect::Create { default_branch: "trunk".to_owned() }]]);
}

#[test]
fn a_refused_repository_is_not_tried_for_ever() {
    let plan = look(&repository(), None, Some("`x.git` cannot be the name of a repository"));
    assert!(plan.effects().is_empty());
    assert_eq!(plan.status.unwrap().conditions[0].reason, "Refused");
    assert!(plan.notes[0].warning);
}

#[test]
fn protected_branches() {
    let spec = repository().spec;
    for (branch, expected) in [
        ("main", true),
        ("MAIN", true),
        ("env/prod", true),
        ("Env/prod", true),
        ("feature", false),
        ("env", false),
    ] {
        assert_eq!(protects(&spec, branch), expected, "{branch}");
    }
    assert!(!protects(&RepositorySpec::default(), "main"));
}
