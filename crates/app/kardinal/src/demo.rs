//! `kardinal up --demo`: a sample application on its way to production, shown while it happens.
//!
//! Everything is made only where it is missing, so a second start goes on where the first one stopped. Git, gates, pull
//! requests and controllers are the real ones; only the workloads are simulated.

mod board;
mod next;
mod sample;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, PolicyGate, PromotionStep};
use kardinal_controllers::LocalForge;
use kardinal_git::{Credentials, Git, Remote};
use kardinal_promotion::view::{self, Next};
use kardinal_simulator::{Environment, Simulator};
use kube::runtime::watcher;

use crate::commands::up::Place;
use crate::output;
use crate::server::Server;
use crate::watching::Changes;
use board::Board;
use next::Commands;
use sample::{APP, ENVIRONMENTS, NAMESPACE, POLICIES, REPOSITORY};

const STORY: &str = "\
`my-app` runs as 1.0.0 in dev, staging and prod, and 1.1.0 is on its way: to dev and staging by itself, to prod
through two gates of the organisation and a pull request that waits for you.
The workloads are simulated; everything else is real.
";

/// What the demo uses of the running control plane.
pub(crate) struct Parts {
    pub(crate) forge: LocalForge,
    pub(crate) git: Arc<Git>,
}

impl Parts {
    /// The sample repository.
    fn remote(&self) -> Remote {
        let url = format!("{}{NAMESPACE}/{REPOSITORY}.git", self.forge.url);
        Remote { url, credentials: Credentials::None, ca: None }
    }
}

/// Shows the way of a version until somebody asks to stop.
pub(crate) async fn run(
    client: kube::Client,
    parts: &Parts,
    place: &Place,
    stop: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let server = Server { client, namespace: NAMESPACE.to_owned() };
    let again = is_released(&server.bundles(APP).await?);
    output::text(&introduction(place, again));
    let demo = async {
        for remark in sample::prepare(&server, parts, Timestamp::now()).await? {
            output::text(&format!("{remark}\n"));
        }
        let commands = Commands::new(place);
        let release = sample::release(&server);
        let follow = follow(&server, &commands);
        futures::try_join!(release, follow, simulate(&server, parts)).map(drop)
    };
    tokio::select! {
        ended = demo => ended,
        stopped = stop => stopped,
    }
}

fn introduction(place: &Place, again: bool) -> String {
    let kubeconfig = place.kubeconfig();
    let story = match again {
        false => STORY,
        true => "The sample application is here from an earlier start; it goes on where it stopped.\n",
    };
    format!(
        "kardinal {} is up, with a sample application.

  Kubernetes API  {}
  web             {}
  kubeconfig      {}

{story}
",
        env!("CARGO_PKG_VERSION"),
        place.kubernetes,
        place.web.as_deref().unwrap_or("off"),
        kubeconfig.display(),
    )
}

/// Stands in for a GitOps tool and a cluster.
async fn simulate(server: &Server, parts: &Parts) -> anyhow::Result<()> {
    let environment = |name: &&str| Environment { path: sample::folder(name), namespace: (*name).to_owned() };
    let simulator = Simulator {
        client: server.client.clone(),
        repositories: parts.git.clone(),
        remote: parts.remote(),
        branch: "main".to_owned(),
        application: APP.to_owned(),
        environments: ENVIRONMENTS.iter().map(environment).collect(),
    };
    simulator.run().await;
    Ok(())
}

/// Prints every transition, and what to do next whenever that is something else.
async fn follow(server: &Server, commands: &Commands) -> anyhow::Result<()> {
    let mut board = Board::new(TimeZone::system());
    let mut offered = BTreeSet::new();
    let all = watcher::Config::default;
    let mut changes = Changes::default()
        .of(server.api::<Bundle>(), all())
        .of(server.api::<PromotionStep>(), all())
        .of(server.api::<PolicyGate>(), all())
        .of(server.api::<Graph>(), all());
    loop {
        let seen = server.seen(APP, &[POLICIES.to_owned()]).await?;
        let explanation = seen.explain(None, Timestamp::now());
        output::coloured(&board.update(&seen.bundles, &explanation));
        // What the demo still releases by itself nobody has to release.
        let is_for_people = |next: &Next| *next != Next::Release || is_released(&seen.bundles);
        if let Some(next) = view::next(&explanation).filter(is_for_people) {
            let mut offers = commands.offers(next);
            offers.retain(|(command, _)| offered.insert(command.clone()));
            output::text(&next::offered(&offers));
        }
        changes.next(explanation.next_change).await;
    }
}

/// Whether the demo has nothing left to release by itself.
fn is_released(bundles: &[Bundle]) -> bool {
    bundles.len() > 1
}
