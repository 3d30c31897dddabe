//! Every forge, against a real server where one can run and against recorded answers elsewhere.

mod barriers;
mod gitea;
mod gitea_answers;
mod github;
mod http;
mod local;
mod server;
