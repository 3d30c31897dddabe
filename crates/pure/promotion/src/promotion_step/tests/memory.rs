//! What is remembered after an effect.

use kardinal_vcs::{CommitState, PullRequest, PullRequestState};

use super::*;

fn found(head: &str) -> PullRequest {
    PullRequest {
        number: 7,
        url: String::new(),
        state: PullRequestState::Open,
        branch: "kardinal/default/b/prod".to_owned(),
        base: "main".to_owned(),
        head: head.to_owned(),
        merged_at: None,
        merged_by: None,
        merge_commit: None,
        mergeable: None,
        closed_at: None,
        closed_by: None,
        approved_by: Vec::new(),
    }
}

fn interpret(memory: Memory, effect: &Effect, outcome: Outcome) -> (Memory, Outcome) {
    let before = memory.clone();
    memory.interpret(&before, &PromotionStep::new("step", Default::default()), effect, outcome)
}

fn show(state: CommitState) -> Effect {
    let (sha, context) = ("c0ffee".to_owned(), "kardinal/gates/main".to_owned());
    Effect::Forge(ForgeEffect::SetCommitStatus { sha, context, state, description: String::new() })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_pull_request_that_cannot_be_updated_because_it_is_gone_is_read_again() {
    let memory = Memory { pull_request: Some(found("c0ffee")), ..Memory::default() };
    let comment = Effect::Forge(ForgeEffect::CommentPullRequest { number: 7, comment: "rebuilt".to_owned() });
    let absent = Outcome::Absent { message: "pull request #7 is not there (yet)".to_owned() };
    let (memory, outcome) = interpret(memory, &comment, absent);
    assert!(matches!(outcome, Outcome::Fault { .. }), "{outcome:?}");
    assert_eq!((memory.pull_request, memory.faults), (None, 1));
}

#[test]
fn what_is_heard_of_a_pull_request_while_it_is_read_makes_it_read_again() {
    let read = Effect::Forge(ForgeEffect::ReadPullRequest { number: 7 });
    let find = Effect::Forge(ForgeEffect::FindPullRequest {
        head: String::new(),
        base: String::new(),
        marker: String::new(),
        since: None,
    });
    let cases = [(&read, Outcome::PullRequest(found("c0ffee"))), (&find, Outcome::NoPullRequest)];
    for (effect, outcome) in cases {
        let before = Memory::default();
        for is_heard in [false, true] {
            let memory = if is_heard { before.clone().hear_of_pull_request() } else { before.clone() };
            let step = PromotionStep::new("step", Default::default());
            let (memory, _) = memory.interpret(&before, &step, effect, outcome.clone());
            let is_known = memory.pull_request.is_some() || memory.has_no_pull_request;
            assert_eq!(is_known, !is_heard, "{effect:?}");
        }
    }
}

#[test]
fn what_is_shown_is_known_since_the_first_time_and_asked_for_once() {
    let memory = Memory { pull_request: Some(found("c0ffee")), faults: 3, ..Memory::default() };
    assert!(!memory.has_shown());
    let (memory, _) = interpret(memory, &show(CommitState::Pending), Outcome::Shown { at: at(10) });
    assert!(memory.has_shown() && memory.withdrawn.as_deref() == Some("c0ffee") && memory.faults == 0);
    let (memory, _) = interpret(memory, &show(CommitState::Pending), Outcome::Shown { at: at(20) });
    assert_eq!(memory.shown.as_ref().map(|shown| shown.since), Some(at(10)), "without a break");
    let (memory, _) = interpret(memory, &show(CommitState::Success), Outcome::Shown { at: at(30) });
    assert_eq!(memory.shown.as_ref().map(|shown| shown.since), Some(at(30)));
    assert_eq!(memory.withdrawn, None);
    let memory = memory.change_hands();
    assert_eq!((memory.shown, memory.asked, memory.pull_request), (None, None, None));
}

#[test]
fn a_forge_that_does_not_let_us_show_anything_is_asked_again_until_it_is_certain() {
    let mut memory = Memory { pull_request: Some(found("c0ffee")), ..Memory::default() };
    for _ in 1..BLOCKED_ATTEMPTS_MAX {
        let blocked = Outcome::Blocked { barrier: Barrier::Other, message: "403".to_owned() };
        memory = interpret(memory, &show(CommitState::Pending), blocked).0;
        assert!(!memory.has_shown() && memory.withdrawn.is_none());
    }
    memory = interpret(
        memory,
        &show(CommitState::Pending),
        Outcome::Blocked { barrier: Barrier::Other, message: "403".to_owned() },
    )
    .0;
    assert!(memory.has_shown() && memory.withdrawn.is_none());
}

#[test]
fn a_pull_request_is_read_again_after_what_may_have_changed_it() {
    let close = || Effect::Forge(ForgeEffect::ClosePullRequest { number: 7, comment: String::new() });
    let fault = || Outcome::Fault { message: "gone".to_owned(), retry: Retry::Soon };
    let cases = [
        (close(), Outcome::Done, false),
        (close(), fault(), false),
        (close(), Outcome::Blocked { barrier: Barrier::Other, message: "403".to_owned() }, true),
        (close(), Outcome::Conflict { message: "conflict".to_owned(), certain: true }, true),
        (Effect::Step(StepEffect::AddFinalizer), Outcome::Done, true),
    ];
    for (effect, outcome, is_known) in cases {
        let memory = Memory { pull_request: Some(found("c0ffee")), ..Memory::default() };
        let (memory, told) = interpret(memory, &effect, outcome);
        assert_eq!(memory.pull_request.is_some(), is_known, "{effect:?} {told:?}");
    }
}

#[test]
fn one_that_was_looked_for_in_vain_is_not_looked_for_until_something_is_heard_of_it() {
    let look = Effect::Forge(ForgeEffect::FindPullRequest {
        head: "kardinal/default/b/prod".to_owned(),
        base: "main".to_owned(),
        marker: String::new(),
        since: None,
    });
    let (memory, _) = interpret(Memory::default(), &look, Outcome::NoPullRequest);
    assert!(memory.has_no_pull_request && !memory.heard_of_pull_request);
    let memory = memory.hear_of_pull_request();
    assert!(!memory.has_no_pull_request && memory.heard_of_pull_request);
    let other =
        Effect::Forge(ForgeEffect::FindMerge { head: String::new(), base: String::new(), since: None });
    let (memory, _) = interpret(memory, &other, Outcome::PullRequest(found("other")));
    assert_eq!(memory.pull_request, None, "it may be another step's");
    let (memory, _) = interpret(memory, &look, Outcome::PullRequest(found("own")));
    assert_eq!(memory.pull_request.map(|found| found.head), Some("own".to_owned()));
}
