//! Ids and names.

use kardinal_api::graph::Graph;

use super::translation::{edges, make};
use super::world::{bundle, gate, line, org, org_gate, pipeline};
use crate::bundle::{graph_names, translate};
use kardinal_planner::names::label_value;
use kardinal_planner::names::{Ids, ObjectNames, base, camel_case, fit};

#[test]
fn ids_are_camel_case() {
    for (name, id) in [
        ("prod-us-east", "prodUsEast"),
        ("no-weekend-deploys", "noWeekendDeploys"),
        ("dev", "dev"),
        ("a.b-c", "aBC"),
        ("eu-1", "eu1"),
        ("x--y", "xY"),
    ] {
        assert_eq!(camel_case(name), id);
    }
}

#[test]
fn ids_can_be_named_by_expressions() {
    let mut ids = Ids::default();
    assert_eq!(ids.take("bundle", "bundle"), "bundle");
    assert_eq!(ids.take("prod", "a"), "prod");
    let mut all = vec!["bundle".to_owned(), "prod".to_owned()];
    let long = "x".repeat(100);
    for (name, identity) in [
        ("prod", "b"),
        ("PROD", "c"),
        ("bundle", "d"),
        ("namespace", "e"),
        ("string", "f"),
        ("2nd-stage", "g"),
        (long.as_str(), "h"),
        (long.as_str(), "i"),
        ("--", "j"),
        ("now", "k"),
    ] {
        let id = ids.take(name, identity);
        assert!(id.len() <= 63 && id.starts_with(|c: char| c.is_ascii_alphabetic()), "{id}");
        assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        all.push(id.to_ascii_lowercase());
    }
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "{all:?}");
}

#[test]
fn the_time_stamp_is_left_out() {
    for (bundle, wanted) in [
        ("my-app-v1-29-0-1712567890", "my-app-v1-29-0"),
        ("my-app-v1-29-0", "my-app-v1-29-0"),
        ("my-app-123456789", "my-app-123456789"),
        ("my-app-17125678901", "my-app"),
        ("my-app-1712567890-rollback-prod", "my-app-1712567890-rollback-prod"),
        ("1712567890", "1712567890"),
    ] {
        assert_eq!(base(bundle), wanted);
    }
}

#[test]
fn long_names_are_cut_and_stay_different() {
    let (a, b) = (format!("{}a", "x".repeat(90)), format!("{}b", "x".repeat(90)));
    assert_eq!(fit(&a, 63).len(), 63);
    assert_ne!(fit(&a, 63), fit(&b, 63));
    assert_eq!(fit(&a, 63), fit(&a, 63));
    assert_eq!(label_value("short"), "short");
    assert!(label_value(&a).len() <= 63);
    let mut names = ObjectNames::default();
    assert_eq!(names.take(&["a", "b-c"], "1"), "a-b-c");
    assert_ne!(names.take(&["a-b", "c"], "2"), "a-b-c");
    assert_eq!(names.take(&["My.App", "dev"], "3"), "my-app-dev");
}

#[test]
fn a_gate_of_several_environments_has_one_instance_for_each() {
    let gate = gate(
        "platform-policies",
        "no-weekend-deploys",
        "{kardinal.io/scope: org, kardinal.io/applies-to: prod-us-east}",
        "{expression: 'true', appliesTo: [prod-eu-west, elsewhere]}",
    );
    let fan = "    - {name: staging}\n    - {name: prod-us-east, dependsOn: [staging]}\n    - {name: prod-eu-west, dependsOn: [staging]}\n";
    let graph = make(&bundle("b"), &pipeline(fan), &[&gate]);
    assert_eq!(
        edges(&graph),
        "staging; noWeekendDeploysProdUsEast<staging; prodUsEast<noWeekendDeploysProdUsEast; \
         noWeekendDeploysProdEuWest<staging; prodEuWest<noWeekendDeploysProdEuWest"
    );
    let name = |at: usize| graph.spec.nodes[at].template.as_ref().unwrap()["metadata"]["name"].clone();
    assert_eq!(name(2), "b-no-weekend-deploys-prod-us-east");
    assert_eq!(name(4), "b-no-weekend-deploys-prod-eu-west");
}

#[test]
fn things_of_the_same_name_are_told_apart() {
    // A gate named like an environment, one named like a keyword, and two of one name.
    let dev = org_gate("dev", "dev");
    let keyword = org_gate("namespace", "dev");
    let team = gate("default", "namespace", "{kardinal.io/applies-to: dev}", "{expression: 'true'}");
    let graph = make(&bundle("b"), &line(&["dev"]), &[&dev, &keyword, &team]);
    assert_eq!(graph.spec.nodes.len(), 5);
    let mut gates: Vec<String> = graph
        .spec
        .nodes
        .iter()
        .map(|node| node.template.as_ref().unwrap())
        .filter(|template| template["kind"] == "PolicyGate")
        .map(|template| template["metadata"]["name"].to_string())
        .collect();
    gates.dedup();
    assert_eq!(gates.len(), 3);
    assert!(graph.spec.nodes.iter().any(|node| node.id == "dev"), "environments choose first");
}

#[test]
fn a_name_that_another_bundle_has_is_left_alone() {
    let (old, new) = (bundle("my-app-v1-1712567890"), bundle("my-app-v1-1712567999"));
    let pipeline = line(&["dev"]);
    let first = translate(&old, &pipeline, &[], &org(), &[]).unwrap();
    let name = |graph: &Graph| graph.metadata.name.clone().unwrap();
    assert_eq!(name(&first), "my-app-v1");
    let second = translate(&new, &pipeline, &[], &org(), &[&first]).unwrap();
    assert_eq!(name(&second), "my-app-v1-1712567999");
    assert_eq!(
        second.spec.nodes[1].template.as_ref().unwrap()["metadata"]["name"],
        "my-app-v1-1712567999-dev"
    );
    assert_eq!(name(&translate(&old, &pipeline, &[], &org(), &[&first]).unwrap()), "my-app-v1");
    // Objects of one name are avoided too, whatever their Graph is called.
    let mut renamed = first.clone();
    renamed.metadata.name = Some("other".to_owned());
    assert_eq!(name(&translate(&new, &pipeline, &[], &org(), &[&renamed]).unwrap()), "my-app-v1-1712567999");
    // Even where both names are taken there is one left.
    let plain = bundle("my-app");
    let mut taken = first.clone();
    taken.metadata.name = Some("my-app".to_owned());
    let third = translate(&plain, &pipeline, &[], &org(), &[&taken]).unwrap();
    assert!(name(&third).starts_with("my-app-") && name(&third).len() == 15, "{}", name(&third));
    assert_eq!(graph_names(&plain), ["my-app".to_owned(), name(&third)]);
    assert_eq!(graph_names(&new)[..2], ["my-app-v1".to_owned(), "my-app-v1-1712567999".to_owned()]);
}

#[test]
fn a_name_that_no_label_can_hold_is_refused() {
    let pipeline = line(&["dev"]);
    let made = |length: usize| translate(&bundle(&"x".repeat(length)), &pipeline, &[], &org(), &[]);
    assert!(made(63).is_ok());
    let problem = made(64).unwrap_err();
    assert_eq!(problem.field, "metadata.name");
    assert!(
        problem.to_string().contains("64 characters (the name of a Bundle can have at most 63"),
        "{problem}"
    );
}
