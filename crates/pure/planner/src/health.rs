//! Whether an environment is healthy with the promoted version: facts to verdict, one file per adapter.
