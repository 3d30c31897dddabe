//! Forges: pull requests, reviews, commit statuses and webhooks, behind one trait.
