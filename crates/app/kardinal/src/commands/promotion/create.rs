//! `kardinal create bundle`.

use std::pin::pin;

use futures::StreamExt as _;
use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundlePhase, PIPELINE_LABEL, Pipeline, Provenance};
use kardinal_promotion::bundle::{is_finished, phase_of, why};
use kardinal_promotion::explain::display_version;
use kardinal_promotion::intent::{NewBundle, SOURCE_ANNOTATION, commit_of, create_bundle, environment_named};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;

use crate::args::{CreateArguments, CreateBundleArguments, CreateCommand};
use crate::failure::{Failure, Kind};
use crate::output::{self, Progress};
use crate::server::{Server, refused, wrong_flag};

/// Runs the subcommand.
pub(crate) fn run(arguments: CreateArguments) -> anyhow::Result<()> {
    match arguments.command {
        CreateCommand::Bundle(bundle) => super::block_on(create(bundle)),
    }
}

async fn create(arguments: CreateBundleArguments) -> anyhow::Result<()> {
    // What is wrong with the order itself is told without a server.
    let wanted = order(&arguments, "default", None)?;
    check_type(&arguments, &wanted)?;
    let server = Server::connect(&arguments.common.server).await?;
    let pipeline = server.pipeline(&arguments.pipeline).await?;
    for name in arguments.target.iter().chain(&arguments.skip) {
        environment_named(&pipeline, name).map_err(Failure::from)?;
    }
    let bundle = order(&arguments, &server.namespace, Some(&pipeline))?;
    let made = server.create(&bundle, arguments.dry_run).await?;
    let output = arguments.common.output;
    output::value(output, &made, || render(&arguments, &made))?;
    if arguments.wait && !arguments.dry_run {
        wait(&server, &made).await?;
    }
    Ok(())
}

fn order(
    arguments: &CreateBundleArguments,
    namespace: &str,
    pipeline: Option<&Pipeline>,
) -> anyhow::Result<Bundle> {
    let images: Vec<&str> = arguments.image.iter().map(String::as_str).collect();
    let provenance = Provenance {
        commit_sha: arguments.commit_sha.clone(),
        ci_run_url: arguments.ci_run.clone(),
        author: arguments.author.clone(),
        ..Provenance::default()
    };
    let git_commit = arguments.git_commit.as_deref().map(commit_of).transpose();
    let new = NewBundle {
        pipeline: &arguments.pipeline,
        namespace,
        known: pipeline,
        images: &images,
        git_commit: git_commit.map_err(|problem| wrong_flag("--git-commit", problem))?,
        provenance: (provenance != Provenance::default()).then_some(provenance),
        target: arguments.target.as_deref(),
        skip: &arguments.skip,
        labels: arguments.label.iter().cloned().collect(),
    };
    let mut bundle = create_bundle(&new, Timestamp::now()).map_err(refused)?;
    bundle
        .metadata
        .annotations
        .get_or_insert_default()
        .insert(SOURCE_ANNOTATION.to_owned(), "cli".to_owned());
    Ok(bundle)
}

/// The type follows from the content; one that was given must agree.
fn check_type(arguments: &CreateBundleArguments, bundle: &Bundle) -> Result<(), Failure> {
    let found = bundle.spec.kind();
    match arguments.kind.map(|kind| kind.kind()) {
        Some(wanted) if wanted != found => {
            let (found, wanted) = (found.as_str(), wanted.as_str());
            Err(Failure::new(
                Kind::Usage,
                format!("--type: what is given makes a Bundle of type `{found}`, not `{wanted}`"),
            )
            .hint("`image` needs `--image`, `config` needs `--git-commit`, `mixed` needs both"))
        }
        _ => Ok(()),
    }
}

fn render(arguments: &CreateBundleArguments, bundle: &Bundle) -> String {
    let name = bundle.metadata.name.as_deref().unwrap_or_default();
    let version = display_version(&kardinal_promotion::gate_context::version(&bundle.spec));
    let pipeline = &arguments.pipeline;
    if arguments.dry_run {
        return format!("Bundle \"{name}\" ({version}) would be created\n");
    }
    let mut text = format!("Bundle \"{name}\" created ({version})\n");
    if !arguments.wait {
        text.push_str(&format!("\nNext:\n  kardinal explain {pipeline} --watch\n"));
    }
    text
}

/// Waits until the Bundle has arrived or failed.
pub(super) async fn wait(server: &Server, bundle: &Bundle) -> anyhow::Result<()> {
    let name = bundle.metadata.name.clone().unwrap_or_default();
    let pipeline = bundle.metadata.labels.as_ref().and_then(|labels| labels.get(PIPELINE_LABEL)).cloned();
    let mut progress = Progress::default();
    let mut states = pin!(watch_object(server.api::<Bundle>(), &name).default_backoff());
    let end = loop {
        match states.next().await {
            Some(Ok(Some(seen))) => {
                progress.say(why(&seen).unwrap_or("waiting for the controllers"));
                if phase_of(&seen).is_some_and(is_finished) {
                    break Some(seen);
                }
            }
            Some(Err(error)) => tracing::debug!(%error, "the watch is started again"),
            Some(Ok(None)) | None => break None,
        }
    };
    progress.end();
    let Some(bundle) = end else {
        return Err(Failure::new(Kind::NotFound, format!("Bundle `{name}` was deleted")).into());
    };
    let message = why(&bundle).unwrap_or_default();
    let phase = phase_of(&bundle);
    let kind = match phase {
        Some(BundlePhase::Verified) => {
            output::remark(&format!("Bundle \"{name}\" has arrived: {message}"));
            return Ok(());
        }
        Some(BundlePhase::SkipDenied) => Kind::Refused,
        _ => Kind::Failed,
    };
    let phase = phase.map(|phase| phase.as_str()).unwrap_or_default();
    let failure = Failure::new(kind, format!("Bundle `{name}` is {phase}: {message}"));
    Err(match pipeline {
        Some(pipeline) => failure.hint(format!("`kardinal explain {pipeline}` tells more")),
        None => failure,
    }
    .into())
}
