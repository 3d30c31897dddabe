//! Repositories as object databases: commits without a work tree, pushed by compare-and-swap.
