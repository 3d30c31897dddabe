//! What Bundles are called.

use serde_json::json;

use super::door::bundle;
use crate::gate_context::version;

#[test]
fn the_version_is_the_tag_or_the_commit() {
    let check = |artifacts: serde_json::Value, expected: &str| {
        let bundle = bundle(&json!({ "spec": { "artifacts": artifacts } }));
        assert_eq!(version(&bundle.spec), expected);
    };
    let image = |reference: &str| json!({ "images": [{ "name": "a", "reference": reference }] });
    check(image("ghcr.io/myorg/my-app:1.29.0"), "1.29.0");
    check(image("localhost:5000/my-app:v2@sha256:0123456789abcdef"), "v2");
    check(image("localhost:5000/my-app@sha256:0123456789abcdef"), "0123456789ab");
    check(image("localhost:5000/my-app"), "");
    check(json!({ "images": [], "gitCommit": { "repository": "r", "sha": "0123456789abcdef" } }), "01234567");
}
