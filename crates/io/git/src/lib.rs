//! Repositories as object databases: commits without a work tree, pushed by compare-and-swap.
//!
//! A promotion writes three or four objects and moves one branch. So nothing here ever checks a repository
//! out: [`Git`] keeps one bare cache per remote, builds blobs, trees and a commit in it and pushes them in a
//! single request. The remote compares the old tip itself; when somebody else was faster the change is
//! applied again to the new tip.

mod budget;
mod cache;
mod disk;
mod error;
mod git;
mod graft;
mod http;
mod lane;
mod objects;
mod order;
mod path;
pub mod process;
mod program;
mod promote;
mod remote;
mod scratch;
mod session;
mod store;
mod words;

pub use budget::Budget;
pub use error::{ChangeError, Error};
pub use git::{Git, Limits, Settings};
pub use graft::graft;
pub use kardinal_vcs::{Credentials, Remote, Secret};
pub use order::{
    Author, Change, Committed, Entry, EntryKind, FileChange, Future, Order, Outcome, Repositories, Tree,
    Write,
};
pub use remote::Local;
pub use scratch::Scratch;
