//! Edits of whole files, as people have them.

mod helm;
mod kustomize;
mod properties;
mod tricky;
