//! The behaviours of writes and reads, each as a table of what kube-apiserver answers.

mod crds;
mod lists;
mod patches;
mod properties;
mod writes;
