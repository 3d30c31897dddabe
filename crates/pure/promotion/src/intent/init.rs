//! A Pipeline from a few lines.

use kardinal_api::kardinal::{
    Approval, Bundle, BundleSpec, BundleType, Environment, GitProvider, Pipeline, PipelineGit, PipelineSpec,
    PolicyGate, SecretReference, Update, UpdateStrategy,
};
use kardinal_policy::Scope;
use serde::Deserialize;

use crate::bundle::{Route, Templates};
use kardinal_planner::problem::Problem;

/// The few lines that `kardinal init` reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InitConfig {
    /// The name of the application, and of the Pipeline.
    pub app: String,
    /// The repository of its image; `kardinal create bundle` will be given its tags.
    #[serde(default)]
    pub image: Option<String>,
    /// The GitOps repository.
    pub git: InitGit,
    /// The environments in order.
    pub environments: Vec<String>,
    /// Who lets changes into production. Absent: people, by pull request.
    #[serde(default)]
    pub prod_approval: Option<Approval>,
}

/// The GitOps repository.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InitGit {
    /// The URL to clone from.
    pub url: String,
    /// The Secret with the token.
    #[serde(default)]
    pub secret: Option<String>,
    /// The base branch.
    #[serde(default)]
    pub branch: Option<String>,
    /// The forge. Absent: `github`.
    #[serde(default)]
    pub provider: Option<GitProvider>,
}

/// The Pipeline that the lines stand for. Production is what is called so (`prod`, `prod-eu`, `production`), else the
/// last environment.
pub fn init(config: &InitConfig, namespace: &str) -> Result<Pipeline, Problem> {
    check_name("app", &config.app)?;
    if config.git.url.is_empty() {
        return Err(Problem::new("git.url", "is empty").hint("give the URL of the GitOps repository"));
    }
    for (position, name) in config.environments.iter().enumerate() {
        check_name(&format!("environments[{position}]"), name)?;
    }
    let called_so = |name: &str| {
        name == "prod" || name == "production" || name.starts_with("prod-") || name.ends_with("-prod")
    };
    let named = config.environments.iter().any(|name| called_so(name));
    let last = config.environments.last().map(String::as_str);
    let is_production = |name: &str| if named { called_so(name) } else { last == Some(name) };
    let environments = config
        .environments
        .iter()
        .map(|name| Environment {
            name: name.clone(),
            path: Some(format!("environments/{name}")),
            update: Some(Update { strategy: Some(UpdateStrategy::Kustomize), helm: None }),
            approval: Some(match is_production(name) {
                true => config.prod_approval.unwrap_or(Approval::PrReview),
                false => Approval::Auto,
            }),
            ..Environment::default()
        })
        .collect();
    let spec = PipelineSpec {
        git: PipelineGit {
            url: config.git.url.clone(),
            branch: config.git.branch.clone(),
            layout: None,
            provider: config.git.provider,
            secret_ref: config.git.secret.clone().map(|name| SecretReference { name }),
        },
        environments,
        history_limit: None,
        paused: None,
        auto_rollback: None,
        policy_namespaces: Vec::new(),
    };
    Route::whole(&spec)?;
    let mut pipeline = Pipeline::new(&config.app, spec);
    pipeline.metadata.namespace = Some(namespace.to_owned());
    Ok(pipeline)
}

/// The organisation's gates that will guard a Pipeline, each named once, in the order of the environments. `gates` are
/// those of the Pipeline's namespace and of the policy namespaces.
pub fn organisations_gates<'a>(
    pipeline: &'a Pipeline,
    gates: &[&'a PolicyGate],
    policy_namespaces: &[String],
) -> Vec<&'a str> {
    let version = Bundle::new("", BundleSpec { kind: Some(BundleType::Image), ..BundleSpec::default() });
    let templates = Templates::collect(pipeline, &version, gates, policy_namespaces);
    let mut names: Vec<&str> = Vec::new();
    for environment in &pipeline.spec.environments {
        for template in templates.guarding(&environment.name) {
            if template.scope == Scope::Org && !names.contains(&template.name()) {
                names.push(template.name());
            }
        }
    }
    names
}

fn check_name(field: &str, name: &str) -> Result<(), Problem> {
    let inner = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if name.is_empty() || name.len() > 63 || !inner || name.starts_with('-') || name.ends_with('-') {
        return Err(Problem::new(field, format!("`{name}` is not a name")).hint(
            "use at most 63 lower-case letters, digits and dashes, with a letter or digit at both ends",
        ));
    }
    Ok(())
}
