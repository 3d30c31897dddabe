//! The local forge: what becomes of a repository and of a pull request.
