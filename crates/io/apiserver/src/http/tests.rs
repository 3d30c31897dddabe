use axum::response::IntoResponse;
use kardinal_apimodel::watch::Limits as WindowLimits;
use tower::ServiceExt;

use super::*;
use crate::clock::SystemClock;
use crate::ids::IdSource;
use crate::store::StoreOptions;

async fn app(limits: Limits) -> Router {
    let options = StoreOptions {
        data_dir: None,
        clock: Arc::new(SystemClock),
        ids: IdSource::new(Some(1)),
        batch: 16,
        window: WindowLimits::default(),
    };
    let (store, _) = Store::open(options).await.unwrap();
    router(Arc::new(App::new(store, Arc::new(SystemClock), limits, CancellationToken::new())))
}

/// One answer's code; `outside` is whether the request comes in over the network.
async fn code(router: &Router, path: &str, outside: bool) -> u16 {
    let mut request = Request::get(path).body(Body::empty()).unwrap();
    if outside {
        request.extensions_mut().insert(FrontStop(CancellationToken::new()));
    }
    router.clone().oneshot(request).await.into_response().status().as_u16()
}

/// A request whose body never ends, so that it keeps its place until its time is over.
fn slow(router: &Router, outside: bool) -> tokio::task::JoinHandle<u16> {
    let endless = futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
    let mut request = Request::post("/api/v1/namespaces").body(Body::from_stream(endless)).unwrap();
    if outside {
        request.extensions_mut().insert(FrontStop(CancellationToken::new()));
    }
    let answer = router.clone().oneshot(request);
    tokio::spawn(async move { answer.await.into_response().status().as_u16() })
}

#[tokio::test(start_paused = true)]
async fn a_full_server_refuses_others_and_lets_its_own_wait() {
    let limits = Limits { requests: 1, own_requests: 1, ..Limits::default() };
    let time = limits.request_timeout;
    let router = app(limits).await;
    let (theirs, ours) = (slow(&router, true), slow(&router, false));
    while code(&router, "/api", true).await != 429 {
        tokio::task::yield_now().await;
    }
    assert_eq!(code(&router, "/healthz", true).await, 200, "probes need no place");
    let began = tokio::time::Instant::now();
    let inside = code(&router, "/api", false).await;
    assert!(inside == 200 || inside == 504, "{inside}");
    assert_eq!(began.elapsed(), time, "it waited for the place");
    assert_eq!((theirs.await.unwrap(), ours.await.unwrap()), (504, 504), "a body that never ends is cut off");
    assert_eq!(code(&router, "/api", true).await, 200);
}

#[tokio::test(start_paused = true)]
async fn whatever_waits_in_this_process_keeps_nobody_out() {
    let router = app(Limits { requests: 1, own_requests: 1, ..Limits::default() }).await;
    let waiting: Vec<_> = (0..20).map(|_| slow(&router, false)).collect();
    tokio::task::yield_now().await;
    assert_eq!(code(&router, "/api", true).await, 200, "the places of others are free");
    let theirs = slow(&router, true);
    while code(&router, "/api", true).await != 429 {
        tokio::task::yield_now().await;
    }
    for waiting in waiting {
        waiting.abort();
        let _ = waiting.await;
    }
    assert_eq!(code(&router, "/api", false).await, 200, "and ours are not theirs");
    theirs.abort();
}

#[tokio::test]
async fn impersonation_is_refused_until_roles_are_decided_here() {
    let router = app(Limits::default()).await;
    let answer = async |method: &str, path: &str, header: &str| {
        let request = Request::builder().method(method).uri(path).header(header, "somebody");
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.into_response();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let headers = [
        "Impersonate-User",
        "Impersonate-Group",
        "Impersonate-Uid",
        "Impersonate-Extra-Scopes",
        "impersonate-user",
    ];
    for header in headers {
        for (method, path) in [
            ("GET", "/api/v1/namespaces"),
            ("GET", "/api/v1/namespaces?watch=true"),
            ("POST", "/api/v1/namespaces"),
            ("DELETE", "/api/v1/namespaces/default"),
            ("GET", "/apis"),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ] {
            let (status, body) = answer(method, path, header).await;
            assert_eq!(status, 403, "{method} {path} {header}: {body}");
            assert!(
                body.contains("\"Forbidden\"") && body.contains("impersonation is not possible"),
                "{body}"
            );
        }
    }
    assert_eq!(answer("GET", "/api/v1/namespaces", "X-Impersonate").await.0, 200);
}
