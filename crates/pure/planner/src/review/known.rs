//! Pull requests by what people name: a repository, a number.

use std::cmp::Reverse;

use kardinal_api::forge::{PullRequest, PullRequestState};

use super::{Refusal, number, state};
use crate::problem::{Problem, listed};

/// The pull requests of one repository or of all, without those that are over unless they are wanted, too. They are sorted
/// by repository, the newest first.
pub fn pull_requests(
    mut all: Vec<PullRequest>,
    repository: Option<&str>,
    with_those_over: bool,
) -> Vec<PullRequest> {
    all.retain(|request| repository.is_none_or(|repository| request.spec.repository == repository));
    all.retain(|request| with_those_over || state(request) == PullRequestState::Open);
    all.sort_by_key(|request| (request.spec.repository.clone(), Reverse(number(request))));
    all
}

/// The pull request with a number. The repository may be left out where only one of the namespace has that number.
pub fn numbered<'a>(
    all: &'a [PullRequest],
    wanted: u64,
    repository: Option<&str>,
    namespace: &str,
) -> Result<&'a PullRequest, Refusal> {
    let found: Vec<&PullRequest> = all
        .iter()
        .filter(|request| number(request) == Some(wanted))
        .filter(|request| repository.is_none_or(|repository| request.spec.repository == repository))
        .collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let message = format!("there is no pull request #{wanted} in namespace `{namespace}`");
            let problem = Problem::new("number", message);
            Err(Refusal::NotFound(problem.hint("`kardinal pr list --all` shows them")))
        }
        several => {
            let repositories = several.iter().map(|one| one.spec.repository.as_str());
            let problem =
                Problem::new("number", format!("several repositories have a pull request #{wanted}"));
            Err(Refusal::Unclear(problem.hint(format!("choose one with `--repo`: {}", listed(repositories)))))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(repository: &str, number: u64, state: &str) -> PullRequest {
        serde_json::from_value(json!({
            "metadata": {"name": format!("{repository}-{number}")},
            "spec": {"repository": repository, "head": "a", "base": "main", "title": "t"},
            "status": {"number": number, "state": state},
        }))
        .unwrap()
    }

    fn all() -> Vec<PullRequest> {
        vec![
            request("shop", 1, "Merged"),
            request("shop", 2, "Open"),
            request("shop", 10, "Open"),
            request("blog", 2, "Open"),
            request("blog", 3, "Closed"),
        ]
    }

    #[test]
    fn open_ones_are_listed_by_repository_and_the_newest_first() {
        for (repository, with_those_over, expected) in [
            (None, false, vec!["blog-2", "shop-10", "shop-2"]),
            (None, true, vec!["blog-3", "blog-2", "shop-10", "shop-2", "shop-1"]),
            (Some("shop"), false, vec!["shop-10", "shop-2"]),
            (Some("other"), true, vec![]),
        ] {
            let found = pull_requests(all(), repository, with_those_over);
            let names: Vec<&str> = found.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
            assert_eq!(names, expected, "{repository:?} {with_those_over}");
        }
    }

    #[test]
    fn a_number_means_one_pull_request_or_the_answer_says_which_there_are() {
        let all = all();
        for (number, repository, expected) in [
            (10, None, Ok("shop-10")),
            (2, Some("blog"), Ok("blog-2")),
            (1, Some("shop"), Ok("shop-1")),
            (
                2,
                None,
                Err(
                    "several repositories have a pull request #2; choose one with `--repo`: `shop` and `blog`",
                ),
            ),
            (
                3,
                Some("shop"),
                Err("there is no pull request #3 in namespace `team`; `kardinal pr list --all` shows them"),
            ),
            (
                7,
                None,
                Err("there is no pull request #7 in namespace `team`; `kardinal pr list --all` shows them"),
            ),
        ] {
            let found = numbered(&all, number, repository, "team");
            let found =
                found.map(|one| one.metadata.name.as_deref().unwrap()).map_err(|refusal| match refusal {
                    Refusal::NotFound(problem) | Refusal::Unclear(problem) => {
                        format!("{}; {}", problem.message, problem.hint.unwrap())
                    }
                    Refusal::Over(_) | Refusal::Check(_) => panic!("{number}: {refusal:?}"),
                });
            assert_eq!(found, expected.map_err(str::to_owned), "{number} {repository:?}");
        }
    }
}
