//! Forges: pull requests, reviews, commit statuses and webhooks, behind one trait.
//!
//! [`open`] turns a repository's URL into a [`Forge`]. All forges share one [`Http`], which keeps a budget for each
//! host, gives up quickly and leaves the long waiting to the caller.

mod address;
mod api;
mod credentials;
mod error;
mod forge;
mod gitea;
mod github;
mod http;
pub mod local;
mod open;
pub mod webhook;

pub use address::same_repository;
pub use error::Error;
pub use forge::{Changes, CommitStatus, Forge, Future};
pub use http::{Http, Observer, Settings};
pub use kardinal_vcs::{CommitState, Credentials, NewPullRequest, PullRequest, PullRequestState, Secret};
pub use open::open;
