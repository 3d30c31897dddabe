//! Text to text: edits of manifests that leave comments, order, quoting and line ends alone.
//!
//! Every edit replaces a few bytes and is then checked: the text before and the text after are parsed, and
//! only the wanted place may differ. When that does not hold there is an error and no text.

mod draft;
mod error;
pub mod helm;
mod image;
pub mod kustomize;
mod path;
pub mod replace;
mod scalar;
mod span;
mod tree;
pub mod yaml;

pub use error::Error;
pub use image::Image;

/// The largest manifest that is looked at, in bytes.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
