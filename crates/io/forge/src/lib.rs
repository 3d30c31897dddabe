//! The local forge: bare repositories, served over smart HTTP, for people who have only Git.
