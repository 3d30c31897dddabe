//! Query parameters, read once and checked as Kubernetes does.

use super::path::decode;

/// Every parameter this server knows; unknown ones are ignored as kube-apiserver ignores them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    pub(crate) dry_run: Vec<String>,
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) resource_version_match: Option<String>,
    pub(crate) label_selector: Option<String>,
    pub(crate) field_selector: Option<String>,
    pub(crate) limit: Option<i64>,
    pub(crate) continue_token: Option<String>,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) allow_watch_bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) force: Option<bool>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) include_object: Option<String>,
    pub(crate) pretty: Option<bool>,
    pub(crate) verbose: bool,
    pub(crate) exclude: Vec<String>,
}

impl Query {
    /// Reads the text after the question mark. The error says which parameter is wrong and why.
    pub(crate) fn parse(text: &str) -> Result<Query, String> {
        let mut query = Query::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let wrong = || format!("the query parameter `{name}` is not valid percent-encoded UTF-8");
            let name = decode(name, true).ok_or_else(wrong)?;
            let value = decode(value, true).ok_or_else(wrong)?;
            query.set(&name, value)?;
        }
        Ok(query)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let some = |value: String| (!value.is_empty()).then_some(value);
        match name {
            "watch" => self.watch = flag(&value),
            "dryRun" => self.dry_run.push(value),
            "fieldManager" => self.field_manager = some(value),
            "fieldValidation" => self.field_validation = some(value),
            "resourceVersion" => self.resource_version = some(value),
            "resourceVersionMatch" => self.resource_version_match = some(value),
            "labelSelector" => self.label_selector = some(value),
            "fieldSelector" => self.field_selector = some(value),
            "limit" => self.limit = number(name, &value)?,
            "continue" => self.continue_token = some(value),
            "timeoutSeconds" => self.timeout_seconds = number(name, &value)?,
            "allowWatchBookmarks" => self.allow_watch_bookmarks = flag(&value),
            "sendInitialEvents" => self.send_initial_events = Some(flag(&value)),
            "force" => self.force = Some(flag(&value)),
            "gracePeriodSeconds" => self.grace_period_seconds = number(name, &value)?,
            "propagationPolicy" => self.propagation_policy = some(value),
            "orphanDependents" => self.orphan_dependents = Some(flag(&value)),
            "includeObject" => self.include_object = some(value),
            "pretty" => self.pretty = Some(flag(&value)),
            "verbose" => self.verbose = flag(&value),
            "exclude" => self.exclude.push(value),
            _ => {}
        }
        Ok(())
    }
}

/// As Kubernetes reads a boolean: everything but an explicit no is a yes.
fn flag(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "false" | "0" | "f")
}

fn number(name: &str, value: &str) -> Result<Option<i64>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(format!("the query parameter `{name}` must be a whole number, not `{}`", clip(value))),
    }
}

/// Keeps hostile input out of error messages at full length.
fn clip(value: &str) -> String {
    if value.chars().count() <= 64 {
        value.to_owned()
    } else {
        value.chars().take(64).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_typed() {
        let query = Query::parse(
            "watch=true&labelSelector=app%20in%20(a%2Cb)&limit=500&dryRun=All&pretty=0&timeoutSeconds=&x=y&allowWatchBookmarks",
        )
        .unwrap();
        let expected = Query {
            watch: true,
            label_selector: Some("app in (a,b)".into()),
            limit: Some(500),
            dry_run: vec!["All".into()],
            pretty: Some(false),
            allow_watch_bookmarks: true,
            ..Query::default()
        };
        assert_eq!(query, expected);
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (text, part) in [("limit=many", "`limit`"), ("timeoutSeconds=1.5", "`1.5`"), ("a=%zz", "`a`")] {
            let error = Query::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let long = Query::parse(&format!("limit={}", "9".repeat(10_000))).unwrap_err();
        assert!(long.len() < 400, "{}", long.len());
    }
}
