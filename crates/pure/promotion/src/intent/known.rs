//! Things by the names that people give, or an answer that names those that exist.

use std::collections::BTreeSet;

use kardinal_api::kardinal::{Bundle, Environment, Pipeline};
use kardinal_object::name_of;
use kardinal_planner::problem::{Problem, listed};

use super::Error;

/// How many Bundles are named to whoever names one that does not exist.
const NAMED: usize = 5;

/// A Bundle by its name. `bundles` are sorted, the newest first.
pub fn bundle_named<'a>(bundles: &'a [Bundle], name: &str) -> Result<&'a Bundle, Error> {
    let found = bundles.iter().find(|bundle| bundle.metadata.name.as_deref() == Some(name));
    found.ok_or_else(|| {
        let known: Vec<&str> =
            bundles.iter().take(NAMED).filter_map(|one| one.metadata.name.as_deref()).collect();
        let problem = Problem::new("bundle", format!("there is no Bundle `{name}`"));
        Error::NotFound(match known.is_empty() {
            true => problem.hint("`kardinal create bundle` makes one"),
            false => problem.hint(format!("the newest are {}", listed(known))),
        })
    })
}

/// An environment of a Pipeline by its name.
pub fn environment_named<'a>(pipeline: &'a Pipeline, name: &str) -> Result<&'a Environment, Error> {
    let environments = &pipeline.spec.environments;
    environments.iter().find(|one| one.name == name).ok_or_else(|| {
        let of = name_of(&pipeline.metadata);
        let message = format!("the Pipeline `{of}` has no environment `{name}`");
        let known = environments.iter().map(|one| one.name.as_str());
        Error::NotFound(Problem::new("environment", message).hint(format!("it has {}", listed(known))))
    })
}

/// A Pipeline by its name, among those of a namespace.
pub fn pipeline_named<'a>(
    pipelines: &'a [Pipeline],
    name: &str,
    namespace: &str,
) -> Result<&'a Pipeline, Error> {
    pipelines.iter().find(|one| one.metadata.name.as_deref() == Some(name)).ok_or_else(|| {
        let names: Vec<&str> = pipelines.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
        let message = format!("there is no Pipeline `{name}` in namespace `{namespace}`");
        let problem = Problem::new("pipeline", message);
        Error::NotFound(match names.is_empty() {
            true => problem.hint(
                "`kardinal init` makes one; `kardinal get pipelines -A` shows those of other namespaces",
            ),
            false => problem.hint(format!("there are {}", listed(names))),
        })
    })
}

/// The name of the only Pipeline of a namespace, for whoever names none.
pub fn only_pipeline<'a>(pipelines: &'a [Pipeline], namespace: &str) -> Result<&'a str, Error> {
    let names: Vec<&str> = pipelines.iter().filter_map(|one| one.metadata.name.as_deref()).collect();
    match names.as_slice() {
        [only] => Ok(only),
        [] => {
            let message = format!("there is no Pipeline in namespace `{namespace}`");
            Err(Error::NotFound(
                Problem::new("pipeline", message)
                    .hint("`kardinal init` makes one; `-n` chooses another namespace"),
            ))
        }
        _ => {
            let message = format!("several Pipelines are in namespace `{namespace}`");
            let problem = Problem::new("pipeline", message);
            Err(Error::Unclear(problem.hint(format!("name one of {}", listed(names)))))
        }
    }
}

/// The Pipelines that have an environment of this name, among those of a namespace.
pub fn pipelines_with<'a>(
    pipelines: &'a [Pipeline],
    environment: &str,
    namespace: &str,
) -> Result<Vec<&'a str>, Error> {
    let has = |pipeline: &&Pipeline| pipeline.spec.environments.iter().any(|one| one.name == environment);
    let found: Vec<&str> =
        pipelines.iter().filter(has).filter_map(|one| one.metadata.name.as_deref()).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let known: BTreeSet<&str> =
        pipelines.iter().flat_map(|one| &one.spec.environments).map(|one| one.name.as_str()).collect();
    let message = format!("no Pipeline in namespace `{namespace}` has an environment `{environment}`");
    let problem = Problem::new("environment", message);
    Err(Error::NotFound(match known.is_empty() {
        true => problem.hint("there are no Pipelines; `-n` chooses another namespace"),
        false => problem.hint(format!("there are {}", listed(known))),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pipeline(name: &str, environments: &[&str]) -> Pipeline {
        let environments: Vec<_> = environments.iter().map(|name| json!({"name": name})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"git": {"url": "u"}, "environments": environments},
        }))
        .unwrap()
    }

    /// The kind of the answer, what is wrong and what to do.
    fn told<T: std::fmt::Debug>(answer: Result<T, Error>) -> (&'static str, String) {
        let error = answer.unwrap_err();
        let kind = match &error {
            Error::NotFound(_) => "not found",
            Error::Unclear(_) => "unclear",
            Error::Refused(_) => "refused",
        };
        let Problem { message, hint, .. } = error.problem().clone();
        (kind, format!("{message}; {}", hint.unwrap()))
    }

    #[test]
    fn who_names_no_bundle_is_told_the_newest() {
        let bundles: Vec<Bundle> = (1..=7)
            .map(|one| {
                Bundle::new(&format!("b-{one}"), serde_json::from_value(json!({"artifacts": {}})).unwrap())
            })
            .collect();
        assert_eq!(bundle_named(&bundles, "b-7").unwrap().metadata.name.as_deref(), Some("b-7"));
        let some = "there is no Bundle `x`; the newest are `b-1`, `b-2`, `b-3`, `b-4` and `b-5`";
        assert_eq!(told(bundle_named(&bundles, "x")), ("not found", some.to_owned()));
        let none = "there is no Bundle `x`; `kardinal create bundle` makes one";
        assert_eq!(told(bundle_named(&[], "x")), ("not found", none.to_owned()));
    }

    #[test]
    fn who_names_no_environment_is_told_those_that_exist() {
        let shop = pipeline("shop", &["dev", "prod"]);
        assert_eq!(environment_named(&shop, "prod").unwrap().name, "prod");
        let wanted = "the Pipeline `shop` has no environment `test`; it has `dev` and `prod`";
        assert_eq!(told(environment_named(&shop, "test")), ("not found", wanted.to_owned()));
        let wanted = "the Pipeline `bare` has no environment `test`; it has none";
        assert_eq!(told(environment_named(&pipeline("bare", &[]), "test")), ("not found", wanted.to_owned()));
    }

    #[test]
    fn who_names_no_pipeline_is_told_those_that_exist() {
        let all = [pipeline("shop", &["dev", "prod"]), pipeline("blog", &["dev", "live"])];
        assert_eq!(pipeline_named(&all, "blog", "team").unwrap().metadata.name.as_deref(), Some("blog"));
        let wanted = "there is no Pipeline `x` in namespace `team`; there are `shop` and `blog`";
        assert_eq!(told(pipeline_named(&all, "x", "team")), ("not found", wanted.to_owned()));
        let (kind, text) = told(pipeline_named(&[], "x", "team"));
        assert!(kind == "not found" && text.contains("get pipelines -A"), "{text}");

        assert_eq!(only_pipeline(&all[..1], "team"), Ok("shop"));
        let wanted = "several Pipelines are in namespace `team`; name one of `shop` and `blog`";
        assert_eq!(told(only_pipeline(&all, "team")), ("unclear", wanted.to_owned()));
        let (kind, text) = told(only_pipeline(&[], "team"));
        assert!(kind == "not found" && text.contains("no Pipeline in namespace `team`"), "{text}");
    }

    #[test]
    fn an_environment_is_looked_for_in_all_pipelines() {
        let all = [pipeline("shop", &["dev", "prod"]), pipeline("blog", &["dev", "live"])];
        assert_eq!(pipelines_with(&all, "dev", "team"), Ok(vec!["shop", "blog"]));
        assert_eq!(pipelines_with(&all, "live", "team"), Ok(vec!["blog"]));
        let wanted =
            "no Pipeline in namespace `team` has an environment `x`; there are `dev`, `live` and `prod`";
        assert_eq!(told(pipelines_with(&all, "x", "team")), ("not found", wanted.to_owned()));
        let (_, text) = told(pipelines_with(&[], "x", "team"));
        assert!(text.ends_with("there are no Pipelines; `-n` chooses another namespace"), "{text}");
    }
}
