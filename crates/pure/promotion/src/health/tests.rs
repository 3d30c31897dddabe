//! Each adapter against the objects that its tool writes.

mod adapters;
mod choosing;
mod kubeconfigs;
mod sights;
mod workloads;

use serde_json::json;

use super::*;

fn image(reference: &str) -> Image {
    Image::parse("my-app", reference, None).unwrap()
}

/// What a promotion of `my-app` 1.29.0 by commit `c0ffee0000` expects.
struct Promotion {
    images: Vec<Image>,
    commit: Option<&'static str>,
    contains: BTreeMap<String, bool>,
    since: Option<Timestamp>,
}

impl Promotion {
    fn of_image() -> Promotion {
        Promotion {
            images: vec![image("ghcr.io/myorg/my-app:1.29.0")],
            commit: Some("c0ffee0000"),
            contains: BTreeMap::from([("de5cend".to_owned(), true), ("0dd".to_owned(), false)]),
            since: Some("2026-04-14T14:00:00Z".parse().unwrap()),
        }
    }

    fn of_config() -> Promotion {
        Promotion { images: Vec::new(), ..Promotion::of_image() }
    }

    fn judge(&self, target: &Target, objects: &[Value]) -> Verdict {
        let Promotion { images, commit, contains, since } = self;
        verdict(
            target,
            objects,
            &Expected { images, commit: *commit, contains, since: *since, baseline: None },
        )
    }
}

fn target(adapter: Adapter, kind: &str) -> Target {
    Target {
        adapter,
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: "prod".to_owned(),
        name: Some("my-app".to_owned()),
        labels: BTreeMap::new(),
        condition: None,
    }
}

/// An object with a pod template that runs `image`.
fn object(kind: &str, image: &str, status: Value) -> Value {
    json!({
        "kind": kind,
        "metadata": {"name": "my-app", "generation": 4},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [
            {"name": "proxy", "image": "envoy:1"}, {"name": "app", "image": image},
        ]}}},
        "status": status,
    })
}

fn healthy(text: &str) -> Verdict {
    Verdict::Healthy(text.to_owned())
}

fn progressing(text: &str) -> Verdict {
    Verdict::Progressing(text.to_owned())
}

fn degraded(text: &str) -> Verdict {
    Verdict::Degraded(text.to_owned())
}
