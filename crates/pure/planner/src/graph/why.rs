//! Whose turn it is when a node waits.

use kardinal_api::Who;
use kardinal_graph::{Wait, WaitReason};

/// Who, or what, ends the waiting.
pub(super) fn who(wait: &Wait) -> Who {
    if wait.until.is_some() && wait.why != WaitReason::Retry {
        return Who::Time;
    }
    match wait.why {
        WaitReason::DependencyFailed
        | WaitReason::FinalizerSkipped
        | WaitReason::Fenced
        | WaitReason::KindUnknown
        | WaitReason::LeftBehind => Who::Person,
        WaitReason::DataMissing
        | WaitReason::Finalizing
        | WaitReason::GateClosed
        | WaitReason::NotReady
        | WaitReason::ObjectAbsent
        | WaitReason::Terminating => Who::Outside,
        WaitReason::Excluded
        | WaitReason::NotInScope
        | WaitReason::NotObserved
        | WaitReason::PermissionUnknown
        | WaitReason::Retry
        | WaitReason::Undecided
        | WaitReason::Updating => Who::Kardinal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_times_turn_where_waiting_ends_by_itself() {
        let wait = |why, until: Option<&str>| Wait {
            node: "a".to_owned(),
            why,
            detail: String::new(),
            until: until.map(|until| until.parse().unwrap()),
        };
        let later = Some("2026-04-09T10:00:00Z");
        for (why, by_itself, otherwise) in [
            (WaitReason::GateClosed, Who::Time, Who::Outside),
            (WaitReason::NotReady, Who::Time, Who::Outside),
            (WaitReason::DataMissing, Who::Time, Who::Outside),
            (WaitReason::Retry, Who::Kardinal, Who::Kardinal),
            (WaitReason::NotInScope, Who::Time, Who::Kardinal),
            (WaitReason::Fenced, Who::Time, Who::Person),
        ] {
            assert_eq!((who(&wait(why, later)), who(&wait(why, None))), (by_itself, otherwise), "{why:?}");
        }
    }
}
