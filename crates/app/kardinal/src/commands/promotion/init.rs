//! `kardinal init`: a Pipeline from a few lines, or the Graph of a Pipeline.

use kardinal_api::kardinal::{Pipeline, PolicyGate};
use kardinal_promotion::bundle::export_graph;
use kardinal_promotion::intent::{self, InitConfig};

use crate::args::{InitArguments, InitMode, OutputFormat};
use crate::failure::{Failure, Kind};
use crate::server::{Server, refused};
use crate::{manifest, output};

/// Makes the Pipeline, or prints what was asked for.
pub(crate) fn run(arguments: InitArguments) -> anyhow::Result<()> {
    super::block_on(async {
        match (arguments.mode, &arguments.from) {
            (InitMode::Graph, Some(from)) => graph(&arguments, from).await,
            _ => pipeline(&arguments).await,
        }
    })
}

async fn pipeline(arguments: &InitArguments) -> anyhow::Result<()> {
    let config = read(arguments)?;
    let output = arguments.common.output;
    if arguments.dry_run {
        let namespace = arguments.common.server.namespace.as_deref().unwrap_or("default");
        let pipeline = intent::init(&config, namespace).map_err(refused)?;
        return print_object(output, &pipeline);
    }
    let server = Server::connect(&arguments.common.server).await?;
    let wanted = intent::init(&config, &server.namespace).map_err(refused)?;
    let pipeline = server.create(&wanted, false).await.map_err(|failure| match failure.hint {
        None => failure.hint(
            "`kardinal init --dry-run` prints the Pipeline; `kubectl apply` changes the one that exists",
        ),
        Some(_) => failure,
    })?;
    let gates = server.gates(&[&arguments.policies.policy_namespaces]).await?;
    output::value(output, &pipeline, || {
        render(&config, &pipeline, &gates, &arguments.policies.policy_namespaces)
    })
}

/// What the specification prints.
fn render(
    config: &InitConfig,
    pipeline: &Pipeline,
    gates: &[PolicyGate],
    policy_namespaces: &[String],
) -> String {
    let environments: Vec<&str> = pipeline.spec.environments.iter().map(|one| one.name.as_str()).collect();
    let count = environments.len();
    let plural = if count == 1 { "" } else { "s" };
    let gates: Vec<&PolicyGate> = gates.iter().collect();
    let org = intent::organisations_gates(pipeline, &gates, policy_namespaces);
    let injected = match org.as_slice() {
        [] => "no org PolicyGates apply".to_owned(),
        [one] => format!("1 org PolicyGate will be injected: {one}"),
        all => format!("{} org PolicyGates will be injected: {}", all.len(), all.join(", ")),
    };
    let app = &config.app;
    let image = config.image.as_deref().unwrap_or("<image>");
    format!(
        "Pipeline \"{app}\" created ({count} environment{plural}: {})\n  {injected}\n\nNext: Add to your CI:\n  kardinal create bundle {app} --image {image}:$TAG\n",
        environments.join(", "),
    )
}

fn read(arguments: &InitArguments) -> anyhow::Result<InitConfig> {
    let file = arguments.file.display();
    let text = manifest::read_text(&arguments.file).map_err(|error| {
        Failure::new(Kind::Usage, format!("{error:#}"))
            .hint("name the configuration with `-f`; `kardinal init --help` shows what it looks like")
    })?;
    let config = serde_saphyr::from_str(&text).map_err(|error| {
        Failure::new(Kind::Usage, format!("`{file}`: {error}"))
            .hint("`kardinal init --help` shows what the configuration looks like")
    })?;
    Ok(config)
}

async fn graph(arguments: &InitArguments, from: &str) -> anyhow::Result<()> {
    let server = Server::connect(&arguments.common.server).await?;
    let pipeline = server.pipeline(from).await?;
    let policies = &arguments.policies.policy_namespaces;
    let gates = server.gates(&[policies, &pipeline.spec.policy_namespaces]).await?;
    let gates: Vec<&PolicyGate> = gates.iter().collect();
    let bundle = arguments.bundle.clone().unwrap_or_else(|| format!("{from}-bundle"));
    let graph = export_graph(&pipeline, &gates, policies, &bundle).map_err(refused)?;
    print_object(arguments.common.output, &graph)
}

/// Objects are for `kubectl apply`, so they are YAML unless JSON is asked for.
fn print_object<T: serde::Serialize>(format: OutputFormat, object: &T) -> anyhow::Result<()> {
    let format = match format {
        OutputFormat::Json => OutputFormat::Json,
        OutputFormat::Table | OutputFormat::Yaml => OutputFormat::Yaml,
    };
    output::value(format, object, String::new)
}
