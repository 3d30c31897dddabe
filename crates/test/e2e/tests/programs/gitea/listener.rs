//! Receives what Gitea delivers, and proves who sent it.

use axum::Router;
use axum::body::Bytes;
use http::{HeaderMap, StatusCode};
use kardinal_scm::webhook::{self, Event};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The secret that Gitea signs its deliveries with.
pub(crate) const SECRET: &str = "only-gitea-and-we-know";

/// Listens from now on. Returns where, and the URLs of each repository in which something has happened.
pub(crate) async fn listen() -> anyhow::Result<(String, mpsc::UnboundedReceiver<(Vec<String>, Option<u64>)>)>
{
    let (sender, receiver) = mpsc::unbounded_channel();
    let service = Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
        let status = match webhook::verify(&headers, &body, SECRET.as_bytes()) {
            Ok(delivery) => {
                let _ = sender.send(told(delivery.event));
                StatusCode::NO_CONTENT
            }
            Err(_) => StatusCode::FORBIDDEN,
        };
        async move { status }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/webhooks", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, service).await });
    Ok((url, receiver))
}

fn told(event: Event) -> (Vec<String>, Option<u64>) {
    match event {
        Event::PullRequest { repository_urls, number, .. }
        | Event::Review { repository_urls, number, .. } => (repository_urls, Some(number)),
        Event::Push { repository_urls, .. } => (repository_urls, None),
        Event::Other => (Vec::new(), None),
    }
}
