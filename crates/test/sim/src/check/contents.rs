//! The repository holds what was promoted last, as it was meant, and everything that strangers brought.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundlePhase};
use kardinal_git::Repositories as _;
use kardinal_testkit::shop::git;

use super::{Rest, name_of};
use crate::config::Files;
use crate::hands::STRANGE;
use crate::scenario::Environment;
use crate::world::{NAMESPACE, REPOSITORY, World};

pub(super) async fn check(rest: &Rest<'_>, world: &World) -> anyhow::Result<()> {
    let contents = read(world).await?;
    for stranger in &rest.actions.strangers {
        ensure!(
            rest.log.iter().any(|commit| commit.id == stranger.commit),
            "{stranger:?} was lost: {:#?}",
            rest.log
        );
        let content =
            contents.get(&stranger.path).with_context(|| format!("the file of {stranger:?} is gone"))?;
        ensure!(
            content.lines().any(|line| line == stranger.line),
            "the line of {stranger:?} was lost: {content}"
        );
    }
    for environment in &rest.scenario.environments {
        let name = &environment.name;
        let should = expected(rest, environment)?;
        let folder = format!("environments/{name}/");
        let is: BTreeMap<String, String> = contents
            .iter()
            .filter_map(|(path, content)| {
                Some((path.strip_prefix(&folder)?.to_owned(), without_strangers(content)))
            })
            .collect();
        let files: BTreeMap<String, String> = should.all().into_iter().collect();
        ensure!(is == files, "`{name}` should have {files:#?}, but has {is:#?}: {:#?}", rest.log);
        is_recorded(rest, environment, &should)?;
    }
    Ok(())
}

/// The files of `main`.
async fn read(world: &World) -> anyhow::Result<BTreeMap<String, String>> {
    let path = world.workshop.forge.store.path(NAMESPACE, REPOSITORY)?;
    let remote = world.workshop.remote(NAMESPACE, REPOSITORY);
    let tip = world.workshop.git.tip(&remote, "main").await?.context("`main` exists")?;
    let mut contents = BTreeMap::new();
    for file in git(&path, &["ls-tree", "-r", "--name-only", &tip])?.lines() {
        let content = world.workshop.git.read(&remote, &tip, file).await?.context("a listed file exists")?;
        contents.insert(file.to_owned(), String::from_utf8(content)?);
    }
    Ok(contents)
}

fn without_strangers(content: &str) -> String {
    content.split_inclusive('\n').filter(|line| !line.starts_with(STRANGE)).collect()
}

/// What the promotions to an environment should have made of its files, one after the other. A rollback goes back from the
/// configuration that the environment has on record.
fn expected(rest: &Rest<'_>, environment: &Environment) -> anyhow::Result<Files> {
    let (mut files, mut present) = (Files::first(), None);
    for (name, _) in rest.promotions(&environment.name) {
        let bundle = rest.bundle(&name)?;
        if let Some(version) = version(bundle) {
            files.version = version;
        }
        let Some(number) = rest.configures(bundle)? else { continue };
        let here = rest.scenario.settings_at(number);
        match present.filter(|_| rollback_of(bundle).is_some()) {
            Some(other) if other == number => {}
            Some(other) => files.turn(&rest.scenario.settings_at(other), &here, environment.overlaid),
            None => {
                files.flags.insert(number);
                match environment.overlaid {
                    true => files.settings = here,
                    false => files.settings.make(number),
                }
            }
        }
        if recorded(bundle, &environment.name).is_some() {
            present = Some(number);
        }
    }
    Ok(files)
}

/// The Bundle that a rollback takes back.
fn rollback_of(bundle: &Bundle) -> Option<&str> {
    bundle.spec.provenance.as_ref()?.rollback_of.as_deref()
}

/// When a Bundle came to an environment, by its own record.
fn recorded(bundle: &Bundle, environment: &str) -> Option<Timestamp> {
    bundle.status.as_ref()?.environments.get(environment)?.promoted_at
}

/// What was recorded last is there. A Bundle that was superseded right after its push may not have written that down.
fn is_recorded(rest: &Rest<'_>, environment: &Environment, files: &Files) -> anyhow::Result<()> {
    let name = &environment.name;
    let recorded = |bundle: &Bundle| recorded(bundle, name);
    let with_images = rest.bundles.iter().filter(|bundle| version(bundle).is_some());
    let latest = with_images.clone().filter_map(&recorded).max();
    // In virtual time two may arrive at the very same instant.
    let last = with_images.filter(|bundle| latest.is_some() && recorded(bundle) == latest);
    let mut versions: BTreeSet<String> = last.filter_map(version).collect();
    if versions.is_empty() {
        versions.insert(Files::first().version);
    }
    let unrecorded = rest
        .promotions(name)
        .filter_map(|(bundle, _)| rest.bundle(&bundle).ok())
        .filter(|bundle| recorded(bundle).is_none())
        .filter(|bundle| {
            bundle.status.as_ref().and_then(|status| status.phase) == Some(BundlePhase::Superseded)
        });
    versions.extend(unrecorded.filter_map(version));
    ensure!(
        versions.contains(&files.version),
        "`{name}` holds {}, but {versions:?} was recorded last: {:#?}",
        files.version,
        rest.log
    );
    // A rollback undoes what the environment has, whichever Bundle it takes back.
    let promoted: Vec<String> = rest.promotions(name).map(|(bundle, _)| bundle).collect();
    let goes_back = |bundle: &String| rest.bundle(bundle).is_ok_and(|bundle| rollback_of(bundle).is_some());
    let before = promoted.iter().rposition(goes_back).unwrap_or_default();
    let passed = promoted.iter().take(before).map(String::as_str);
    let undone: BTreeSet<&str> = rest.bundles.iter().filter_map(rollback_of).chain(passed).collect();
    for bundle in rest.bundles.iter().filter(|bundle| recorded(bundle).is_some()) {
        let number = rest.configures(bundle)?.filter(|_| !undone.contains(&name_of(bundle)));
        ensure!(
            number.is_none_or(|number| files.flags.contains(&number)),
            "`{}` says that it was promoted to `{name}`, but its configuration is not there: {:#?}",
            name_of(bundle),
            rest.log
        );
    }
    Ok(())
}

/// The version of the image that a Bundle carries.
fn version(bundle: &Bundle) -> Option<String> {
    let image = bundle.spec.artifacts.images.first()?;
    Some(image.reference.rsplit(':').next()?.to_owned())
}
