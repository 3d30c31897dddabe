//! Promotions on a real Gitea, which the test kit builds and starts: the story that people see, and what happens
//! when the forge or the controllers fail on the way. Skipped, with a visible line, where there is no Go.

mod counts;
mod doors;
mod kill;
mod listener;
mod outage;
mod proxy;
mod replicas;
mod site;
mod story;
