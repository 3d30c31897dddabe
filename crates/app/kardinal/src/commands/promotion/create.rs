//! `kardinal create bundle`.

use std::pin::pin;

use futures::StreamExt as _;
use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundlePhase, GitCommit, PIPELINE_LABEL, Pipeline, Provenance};
use kardinal_promotion::bundle::{is_finished, why};
use kardinal_promotion::explain::display_version;
use kardinal_promotion::intent::{NewBundle, SOURCE_ANNOTATION, create_bundle, environment_named};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;

use crate::args::{CreateArguments, CreateBundleArguments, CreateCommand};
use crate::failure::{Failure, Kind};
use crate::output::{self, Progress};
use crate::server::{Server, refused};

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
    output::value(output, &made, || told(&arguments, &made))?;
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
    let new = NewBundle {
        pipeline: &arguments.pipeline,
        namespace,
        known: pipeline,
        images: &images,
        git_commit: arguments.git_commit.as_deref().map(commit).transpose()?,
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

/// `https://example.com/repo@abc123`; the last `@` counts, for a URL may have one of its own.
fn commit(text: &str) -> Result<GitCommit, Failure> {
    match text.rsplit_once('@') {
        Some((repository, sha)) if !repository.is_empty() && !sha.is_empty() && !sha.contains(['/', ':']) => {
            Ok(GitCommit { repository: repository.to_owned(), sha: sha.to_owned(), message: None })
        }
        _ => Err(Failure::new(Kind::Usage, "--git-commit: it is not a repository and a commit")
            .hint("write it as `https://github.com/myorg/app-config@abc123def456`")),
    }
}

/// The type follows from the content; one that was given must agree.
fn check_type(arguments: &CreateBundleArguments, bundle: &Bundle) -> Result<(), Failure> {
    let found = bundle.spec.kind();
    match arguments.kind.map(|kind| kind.kind()) {
        Some(wanted) if wanted != found => {
            let word = |kind| format!("{kind:?}").to_lowercase();
            Err(Failure::new(
                Kind::Usage,
                format!(
                    "--type: what is given makes a Bundle of type `{}`, not `{}`",
                    word(found),
                    word(wanted)
                ),
            )
            .hint("`image` needs `--image`, `config` needs `--git-commit`, `mixed` needs both"))
        }
        _ => Ok(()),
    }
}

fn told(arguments: &CreateBundleArguments, bundle: &Bundle) -> String {
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
                if seen.status.as_ref().and_then(|status| status.phase).is_some_and(is_finished) {
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
    let phase = bundle.status.as_ref().and_then(|status| status.phase);
    let kind = match phase {
        Some(BundlePhase::Verified) => {
            output::remark(&format!("Bundle \"{name}\" has arrived: {message}"));
            return Ok(());
        }
        Some(BundlePhase::SkipDenied) => Kind::Refused,
        _ => Kind::Failed,
    };
    let phase = phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
    let failure = Failure::new(kind, format!("Bundle `{name}` is {phase}: {message}"));
    Err(match pipeline {
        Some(pipeline) => failure.hint(format!("`kardinal explain {pipeline}` tells more")),
        None => failure,
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::commit;

    #[test]
    fn a_commit_is_split_at_the_last_at_sign() {
        let parsed = |text: &str| commit(text).map(|commit| (commit.repository, commit.sha)).ok();
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(parsed("https://h/r@abc1234"), pair("https://h/r", "abc1234"));
        assert_eq!(parsed("git@h:r@abc1234"), pair("git@h:r", "abc1234"));
        for wrong in ["", "abc1234", "@abc", "https://h/r@", "git@github.com:myorg/r"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
