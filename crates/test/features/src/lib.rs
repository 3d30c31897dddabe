//! Nothing but one choice of features for the test builds of all packages: see `Cargo.toml`.
