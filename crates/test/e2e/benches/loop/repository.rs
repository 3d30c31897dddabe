//! One file of a large repository: our way beside the git program's.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use futures::future::BoxFuture;
use kardinal_forge::{Credentials, Guard, Identity, RefChange, Store};
use kardinal_git::{Author, Change, ChangeError, Git, Order, Remote, Repositories as _, Secret, Tree, Write};
use kardinal_testkit::shop::{git, push_first};

use crate::place::kustomization;
use crate::table::Row;
use crate::travel::millis;

const FILES: usize = 5_000;
const ROUNDS: usize = 15;
const TARGET: &str = "apps/app-0042/kustomization.yaml";

/// `file://` and smart HTTP.
pub(crate) async fn rows() -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(Store::new(folder.path().join("repositories")));
    let path = store.create("default", "large", "main")?;
    let files: Vec<(String, String)> =
        (0..FILES).map(|at| (format!("apps/app-{at:04}/kustomization.yaml"), kustomization("0"))).collect();
    push_first(&path, &files)?;
    let ours = Git::new(kardinal_git::Settings {
        cache_dir: folder.path().join("cache"),
        max_bytes: 1 << 30,
        max_age: std::time::Duration::from_secs(3600),
        local: None,
        limits: kardinal_git::Limits::default(),
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let web = format!("http://{}", listener.local_addr()?);
    let router = kardinal_forge::router(store, Arc::new(Open));
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut rows = Vec::new();
    for (name, url, credentials) in [
        ("file://", format!("file://{}", path.display()), kardinal_git::Credentials::None),
        (
            "smart HTTP",
            format!("{web}/git/default/large.git"),
            kardinal_git::Credentials::Token(Secret::new("bench")),
        ),
    ] {
        let remote = Remote { url: url.clone(), credentials, ca: None };
        let mine = median(async |round| commit(&ours, &remote, &format!("{name}-{round}")).await).await?;
        let address = url.replace("http://", "http://user:bench@");
        let theirs = median(async |round| by_git(&address, &format!("git-{name}-{round}"))).await?;
        let ratio = theirs.as_secs_f64() / mine.as_secs_f64();
        rows.push(Row::new(
            format!("one file of {FILES}, {name}"),
            millis(mine),
            format!("git clone + edit + commit + push {}: {ratio:.0}×", millis(theirs)),
        ));
    }
    git(&path, &["fsck", "--strict"])?;
    serving.abort();
    Ok(rows)
}

/// The middle one of several rounds, after one that warms up.
async fn median(
    mut round: impl AsyncFnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<std::time::Duration> {
    round(0).await?;
    let mut times = Vec::new();
    for at in 1..=ROUNDS {
        let started = Instant::now();
        round(at).await?;
        times.push(started.elapsed());
    }
    times.sort();
    times.get(ROUNDS / 2).copied().context("there were rounds")
}

struct Retag(String);

impl Change for Retag {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            let stop = |message: String| ChangeError::problem(message);
            let content = tree.read(TARGET).map_err(|error| stop(error.to_string()))?;
            let text =
                String::from_utf8(content.unwrap_or_default()).map_err(|error| stop(error.to_string()))?;
            let image = kardinal_manifest::Image::parse(
                "my-app",
                &format!("{}:{}", crate::place::IMAGE, self.0),
                None,
            );
            let image = image.map_err(|error| stop(error.to_string()))?;
            let edited = kardinal_manifest::kustomize::set_images(TARGET, &text, &[image]);
            let edited = edited.map_err(|error| stop(error.to_string()))?;
            Ok(vec![Write { path: TARGET.to_owned(), content: Some(edited.into_bytes()) }])
        })
    }
}

async fn commit(git: &Git, remote: &Remote, tag: &str) -> anyhow::Result<()> {
    let tag = tag.replace(['/', ':', ' '], "-");
    let order = Order {
        base: "main".to_owned(),
        branch: "main".to_owned(),
        message: format!("promote {tag}"),
        author: Author {
            name: "kardinal".to_owned(),
            email: "kardinal@localhost".to_owned(),
            time: jiff::Timestamp::now(),
        },
        identity: format!("Kardinal-Step: {tag}"),
        replaces: None,
        change: Arc::new(Retag(tag)),
    };
    let done = git.commit(remote, &order).await?;
    ensure!(done.kind == kardinal_git::Outcome::Pushed, "{done:?}");
    Ok(())
}

fn by_git(url: &str, tag: &str) -> anyhow::Result<()> {
    let work = tempfile::tempdir()?;
    git(work.path(), &["clone", "--quiet", url, "clone"])?;
    let clone = work.path().join("clone");
    edit(&clone, &tag.replace(['/', ':', ' '], "-"))?;
    git(&clone, &["commit", "--quiet", "-am", tag])?;
    git(&clone, &["push", "--quiet", "origin", "main"])?;
    Ok(())
}

fn edit(clone: &Path, tag: &str) -> anyhow::Result<()> {
    std::fs::write(clone.join(TARGET), kustomization(tag))?;
    Ok(())
}

/// Everybody with the token may do everything.
struct Open;

impl Guard for Open {
    fn authenticate(&self, _: &str, _: &str, credentials: &Credentials) -> Option<Identity> {
        (credentials.secret == "bench").then(|| Identity { name: "bench".to_owned(), trusted: true })
    }

    fn protected(&self, _: &str, _: &str, _: &str) -> bool {
        false
    }

    fn pushed(&self, _: &str, _: &str, _: &[RefChange]) {}
}
