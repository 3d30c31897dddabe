//! Input that nobody sends by accident.

use crate::*;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[tokio::test(start_paused = true)]
async fn large_bodies_are_refused_without_being_read() {
    let server = memory().await;
    let announced = send(&server, "POST", MAPS, &JSON, vec![b' '; 50 << 20]).await.expect(413);
    assert_eq!(announced.body["reason"], "RequestEntityTooLarge");
    let chunk = bytes::Bytes::from(vec![b' '; 1 << 20]);
    // No end and no length: only a reader that stops at the limit returns.
    let endless = futures::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
    send(&server, "POST", MAPS, &JSON, Body::from_stream(endless)).await.expect(413);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_make_no_sense() {
    let server = memory().await;
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        deep.as_str(),
        "",
        "null",
        "[]",
        "42",
        "{",
        "\"x\"",
        "{\"metadata\":7}",
        "{\"kind\":\"Pod\"}",
        "\u{0}",
    ] {
        let reply = send(&server, "POST", MAPS, &JSON, body.to_owned()).await;
        assert!((400..=422).contains(&reply.code), "{}: {}", &body[..body.len().min(20)], reply.text);
        assert_eq!(reply.body["kind"], "Status");
        let reply = send(
            &server,
            "PATCH",
            &format!("{MAPS}/x?fieldManager=m"),
            &[("content-type", APPLY)],
            body.to_owned(),
        )
        .await;
        assert!((400..=422).contains(&reply.code), "{}: {}", &body[..body.len().min(20)], reply.text);
    }
    let nested = format!("{}\"x\"{}", "{\"a\":".repeat(120), "}".repeat(120));
    let reply =
        send(&server, "POST", MAPS, &JSON, format!("{{\"metadata\":{{\"name\":\"n\"}},\"data\":{nested}}}"))
            .await;
    assert!((400..=422).contains(&reply.code), "{}", reply.text);
    get(&server, "/readyz").await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn bad_queries_end_in_a_clear_error() {
    let server = memory().await;
    post(&server, MAPS, &config_map("x")).await.expect(201);
    for query in [
        "labelSelector=a%20in",
        "labelSelector=a%20in%20(",
        "labelSelector=%3D%3D%3D",
        "labelSelector=a%3Db%3Dc",
        "fieldSelector=nonsense",
        "fieldSelector=spec.x%3D1",
        "limit=x",
        "continue=!!!",
        "continue=AAAA",
        "resourceVersion=-1",
        "resourceVersion=99999999999999999999999",
        "labelSelector=%ff",
        "timeoutSeconds=soon",
    ] {
        let reply = get(&server, &format!("{MAPS}?{query}")).await.expect(400);
        assert!(!reply.message().is_empty(), "{query}");
    }
    let long = "a,".repeat(30_000);
    let reply = get(&server, &format!("{MAPS}?labelSelector={long}")).await;
    assert!(reply.code == 400 || reply.code == 200, "{}", reply.code);
    let huge = get(&server, &format!("{MAPS}?limit=9223372036854775807")).await.expect(200);
    assert_eq!(huge.body["items"].as_array().unwrap().len(), 1);
    get(&server, &format!("{MAPS}?limit=-5")).await.expect(200);
}
