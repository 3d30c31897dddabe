//! What can be typed.

mod backup;
mod bounds;
mod forge;
mod graph;
mod names;
mod promotion;
mod replicas;
mod server;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use kardinal_apiserver::ConnectionLimits;
use kardinal_controllers::{GraphController, GraphScope, Shards};

pub(crate) use backup::*;
pub(crate) use bounds::BoundsArguments;
pub(crate) use forge::*;
pub(crate) use graph::*;
pub(crate) use promotion::*;
pub(crate) use replicas::*;
pub(crate) use server::*;

/// Gets a new version safely to production.
#[derive(Debug, Parser)]
#[command(name = "kardinal", version, about, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Says more in the log; twice says everything
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Leaves `managedFields` in what `-o json` and `-o yaml` print
    #[arg(long, global = true)]
    pub(crate) show_managed_fields: bool,
    #[command(flatten)]
    before: BeforeCommand,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What may also stand before the name of a command, as in `kardinal -n team-a get pipelines`.
#[derive(Debug, Args)]
struct BeforeCommand {
    #[command(flatten)]
    server: ServerArguments,
    /// How to print it
    #[arg(long, short, global = true, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

const AFTER_HELP: &str = "\
Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 refused by policy or permission, 5 not reachable";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the whole control plane on this machine; no cluster needed
    Up(UpArguments),
    /// Runs the controllers on a Kubernetes cluster
    Controller(ControllerArguments),
    /// Carries out the steps of a shard for a control plane on another cluster
    Agent(AgentArguments),
    /// Makes a Pipeline from a few lines, or prints a Pipeline as a Graph
    Init(InitArguments),
    /// Lists Pipelines, Bundles and steps
    Get(GetArguments),
    /// Creates a Bundle
    Create(CreateArguments),
    /// Promotes what a Bundle carries to an environment
    Promote(PromoteArguments),
    /// Tells why a promotion waits, for what and until when
    Explain(ExplainArguments),
    /// Brings an environment back to what it had before
    Rollback(RollbackArguments),
    /// Holds a Pipeline, the promotions under way included
    Pause(PauseArguments),
    /// Lets a paused Pipeline go on
    Resume(ResumeArguments),
    /// Shows what was promoted when, by whom and on which evidence
    History(HistoryArguments),
    /// Lists, checks and simulates gates
    Policy(PolicyArguments),
    /// Lets Bundles on their way pass a gate for a while
    Override(OverrideArguments),
    /// Compares what two Bundles carry
    Diff(DiffArguments),
    /// Reviews the pull requests of the local forge
    Pr(PrArguments),
    /// Looks for what keeps kardinal from working, and tells the remedies
    Doctor(DoctorArguments),
    /// Writes everything that `kardinal up` keeps into one file, also while it runs
    Backup(BackupArguments),
    /// Makes a data directory for `kardinal up` from a backup
    Restore(RestoreArguments),
    /// Prints a completion script for a shell
    Completion(CompletionArguments),
    /// Checks, draws and explains Graphs
    Graph(GraphArguments),
    /// Installs kardinal's kinds into a cluster, or prints what would be installed
    Install(InstallArguments),
    /// Prints the version of this program and of the server
    Version(VersionArguments),
}

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    /// Where objects, keys and the kubeconfig are kept
    #[arg(long, value_name = "DIR", default_value = ".kardinal", env = "KARDINAL_DATA_DIR")]
    pub(crate) data_dir: PathBuf,
    /// Address of the Kubernetes API (HTTPS); port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6440")]
    pub(crate) listen: SocketAddr,
    /// Address of the web side: `/api/v1`, `/webhooks`, `/git`, `/metrics`; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8440")]
    pub(crate) http: SocketAddr,
    #[command(flatten)]
    pub(crate) web: WebArguments,
    /// Shows the whole way of a version with a sample application; harmless when repeated
    #[arg(long)]
    pub(crate) demo: bool,
    /// Serves the API only; the controllers run elsewhere
    #[arg(long, conflicts_with = "demo")]
    pub(crate) no_controllers: bool,
    /// Keeps all objects in memory: everything is gone when the program ends
    #[arg(long)]
    pub(crate) ephemeral: bool,
    #[command(flatten)]
    pub(crate) controllers: ControllerSettings,
}

#[derive(Debug, Args)]
pub(crate) struct ControllerArguments {
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    #[command(flatten)]
    pub(crate) controllers: ControllerSettings,
    /// Address of the web side: `/api/v1`, `/webhooks`, `/metrics`, `/healthz`, `/readyz`; absent: none
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) web: WebArguments,
    /// Where fetched repositories are kept
    #[arg(long, value_name = "DIR", default_value = "/var/cache/kardinal")]
    pub(crate) git_cache_dir: PathBuf,
    /// Does not install or update kardinal's kinds at start
    #[arg(long)]
    pub(crate) skip_install: bool,
    #[command(flatten)]
    pub(crate) election: ElectionArguments,
}

/// Who may come to the ports, and how many.
#[derive(Debug, Clone, Args)]
pub(crate) struct WebArguments {
    /// Names under which pages and metrics are served besides addresses and `localhost`; `*` for all
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) http_allowed_hosts: Vec<String>,
    /// How many connections each port serves at the same time
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: u32,
    /// How many of them one address may have; all programs of this machine share one
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections_per_peer: u32,
}

impl WebArguments {
    /// The bounds of each port.
    pub(crate) fn connections(&self) -> ConnectionLimits {
        let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        ConnectionLimits {
            total: number(self.max_connections),
            per_peer: number(self.max_connections_per_peer),
            ..ConnectionLimits::default()
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ControllerSettings {
    /// Who runs Graphs: this program, or somebody else's controller
    #[arg(long, value_enum, default_value_t = GraphControllerChoice::Embedded)]
    pub(crate) graph_controller: GraphControllerChoice,
    /// How far Graphs reach that name no ServiceAccount: their own namespace, or all that the controller may do
    #[arg(long, value_enum, default_value_t = GraphScopeChoice::Namespace)]
    pub(crate) graph_scope: GraphScopeChoice,
    /// The namespaces of the organisation's gates, which no team can leave out
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', default_value = "platform-policies")]
    #[arg(value_parser = names::namespace)]
    pub(crate) policy_namespaces: Vec<String>,
    /// Works as the agent of a shard: carries out its steps, and does nothing else
    #[arg(long, value_name = "NAME", value_parser = names::shard, conflicts_with = "leave_shards")]
    pub(crate) shard: Option<String>,
    /// Leaves steps that have a shard to agents, even where none was ever seen
    #[arg(long)]
    pub(crate) leave_shards: bool,
    /// How many objects of a kind are worked on at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) concurrency: u16,
    #[command(flatten)]
    pub(crate) bounds: BoundsArguments,
}

impl ControllerSettings {
    /// The settings that the controllers understand.
    pub(crate) fn settings(&self) -> kardinal_controllers::Settings {
        kardinal_controllers::Settings {
            graph_controller: match self.graph_controller {
                GraphControllerChoice::Embedded => GraphController::Embedded,
                GraphControllerChoice::External => GraphController::External,
            },
            graph_scope: match self.graph_scope {
                GraphScopeChoice::Namespace => GraphScope::Namespace,
                GraphScopeChoice::Cluster => GraphScope::Cluster,
            },
            concurrency: usize::from(self.concurrency),
            policy_namespaces: self.policy_namespaces.clone(),
            health_namespaces: self.bounds.health_namespaces.clone(),
            shards: match (&self.shard, self.leave_shards) {
                (Some(shard), _) => Shards::Only(shard.clone()),
                (None, true) => Shards::Unsharded,
                (None, false) => Shards::All,
            },
            ..kardinal_controllers::Settings::default()
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GraphControllerChoice {
    Embedded,
    External,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GraphScopeChoice {
    Namespace,
    Cluster,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  source <(kardinal completion bash)")]
pub(crate) struct CompletionArguments {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct InstallArguments {
    /// Prints the definitions and permissions as YAML instead of applying the definitions
    #[arg(long)]
    pub(crate) export: bool,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

#[derive(Debug, Args)]
pub(crate) struct VersionArguments {
    /// Does not ask the server
    #[arg(long)]
    pub(crate) client: bool,
    #[command(flatten)]
    pub(crate) server: ServerArguments,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Every command that talks to a server, with what it needs.
    const COMMANDS: [&str; 27] = [
        "init",
        "get pipelines",
        "get steps",
        "get bundles",
        "create bundle my-app --image a:1",
        "promote my-app --env prod",
        "explain my-app",
        "rollback my-app --env prod",
        "pause my-app",
        "resume my-app",
        "history my-app",
        "policy list",
        "policy simulate --env prod",
        "override my-app --gate g --reason r",
        "diff a b",
        "pr list",
        "pr show 1",
        "pr diff 1",
        "pr open 1",
        "pr approve 1",
        "pr merge 1",
        "pr close 1",
        "doctor",
        "graph explain g",
        "graph render g",
        "install",
        "version",
    ];

    #[test]
    fn global_flags_are_taken_before_the_command_between_its_words_and_after_it() {
        const FLAGS: &str = "-n team-a --kubeconfig f --context c -o json --show-managed-fields";
        for command in COMMANDS {
            let (first, rest) = command.split_once(' ').unwrap_or((command, ""));
            for line in [
                format!("kardinal {FLAGS} {command}"),
                format!("kardinal {command} {FLAGS}"),
                format!("kardinal {first} {FLAGS} {rest}"),
            ] {
                let parsed = Arguments::try_parse_from(line.split_whitespace());
                let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
                assert!(parsed.show_managed_fields, "{line}");
                let seen = format!("{:?}", parsed.command);
                for wanted in
                    ["kubeconfig: Some(\"f\")", "context: Some(\"c\")", "namespace: Some(\"team-a\")"]
                {
                    assert!(seen.contains(wanted), "{line}: {seen}");
                }
                let printed = seen.contains("output:");
                assert!(!printed || seen.contains("output: Json"), "{line}: {seen}");
            }
        }
        let later =
            Arguments::try_parse_from(["kardinal", "-n", "a", "get", "pipelines", "-n", "b"]).unwrap();
        assert!(format!("{:?}", later.command).contains("namespace: Some(\"b\")"), "the nearer one counts");
    }

    #[test]
    fn with_leave_shards_a_step_that_has_a_shard_is_never_served() {
        for line in ["kardinal controller --leave-shards", "kardinal up --leave-shards"] {
            let settings = match Arguments::try_parse_from(line.split_whitespace()).unwrap().command {
                Command::Controller(arguments) => arguments.controllers.settings(),
                Command::Up(arguments) => arguments.controllers.settings(),
                other => panic!("{other:?}"),
            };
            let serves =
                |shard, has_agent| kardinal_promotion::shard::serves(&settings.shards, shard, |_| has_agent);
            for has_agent in [None, Some(false), Some(true)] {
                assert!(!serves(Some("eu-cluster"), has_agent), "{line}: {has_agent:?}");
                assert!(serves(None, has_agent), "{line}: {has_agent:?}");
            }
        }
        let both = ["kardinal", "controller", "--leave-shards", "--shard", "eu-cluster"];
        assert!(Arguments::try_parse_from(both).is_err(), "an agent leaves its own shard to nobody");
    }
}
