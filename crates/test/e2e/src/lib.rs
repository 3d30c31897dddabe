//! End-to-end scenarios; everything is under `tests/`.
