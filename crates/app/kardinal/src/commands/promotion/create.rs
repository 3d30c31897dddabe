//! `kardinal create bundle`.

use std::pin::pin;

use futures::StreamExt as _;
use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, Pipeline, Provenance};
use kardinal_object::name_of;
use kardinal_promotion::explain::display_version;
use kardinal_promotion::intent::{
    self, NewBundle, SOURCE_ANNOTATION, commit_of, create_bundle, environment_named,
};
use kardinal_promotion::view::{self, Arrival, ArrivalState};
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
    // What is wrong with the order itself is said without a server.
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
    let hint = "`image` needs `--image`, `config` needs `--git-commit`, `mixed` needs both";
    let named = arguments.kind.map(|kind| kind.kind());
    intent::check_type(bundle, named).map_err(|problem| wrong_flag("--type", problem.hint(hint)))
}

fn render(arguments: &CreateBundleArguments, bundle: &Bundle) -> String {
    let name = name_of(&bundle.metadata);
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
async fn wait(server: &Server, bundle: &Bundle) -> Result<(), Failure> {
    let name = name_of(&bundle.metadata);
    let mut progress = Progress::default();
    let mut states = pin!(watch_object(server.api::<Bundle>(), name).default_backoff());
    let arrival = loop {
        let seen = match states.next().await {
            Some(Ok(seen)) => seen,
            Some(Err(error)) => {
                tracing::debug!(%error, "the watch is started again");
                continue;
            }
            None => None,
        };
        let arrival = view::arrival(name, seen.as_ref());
        if let Some(said) = &arrival.said {
            progress.say(said);
        }
        if arrival.state.is_over() {
            break arrival;
        }
    };
    progress.end();
    let Arrival { state, message, hint, .. } = arrival;
    let kind = match state {
        ArrivalState::OnItsWay | ArrivalState::Arrived => {
            output::remark(&message);
            return Ok(());
        }
        ArrivalState::Failed => Kind::Failed,
        ArrivalState::Denied => Kind::Refused,
        ArrivalState::Deleted => Kind::NotFound,
    };
    Err(Failure { kind, message, hint })
}
