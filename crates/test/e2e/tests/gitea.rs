//! Promotions on a real Gitea, which the test kit builds and starts: the story that people see, and what happens
//! when the forge or the controllers fail on the way. Skipped, with a visible line, where there is no Go.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

#[path = "gitea/counts.rs"]
mod counts;
#[path = "gitea/doors.rs"]
mod doors;
#[path = "gitea/kill.rs"]
mod kill;
#[path = "gitea/listener.rs"]
mod listener;
#[path = "gitea/outage.rs"]
mod outage;
#[path = "process/running.rs"]
mod process;
#[path = "gitea/proxy.rs"]
mod proxy;
#[path = "gitea/replicas.rs"]
mod replicas;
#[path = "gitea/site.rs"]
mod site;
#[path = "gitea/story.rs"]
mod story;
