//! What compiles, in which order, and what does not, with which message.

use super::compile;
use crate::declare::{Problem, read};
use crate::graph::{EdgeKind, Graph};

fn build(nodes: &str) -> Result<Graph, Vec<Problem>> {
    let value: serde_json::Value =
        serde_saphyr::from_str(nodes).unwrap_or_else(|error| panic!("{error}\n{nodes}"));
    compile(&read(&value)?)
}

fn thing(id: &str, spec: &str) -> String {
    format!(
        "- {{id: {id}, template: {{apiVersion: test.io/v1, kind: Thing, metadata: {{name: x{id}}}, spec: {{v: '{spec}'}}}}}}\n"
    )
}

/// Order with layers, `a1 b2 …`, and edges, `a>b` hard, `a~b` soft, `a=b` explicit.
fn check(nodes: &str, order: &str, edges: &str) {
    let graph = build(nodes).unwrap_or_else(|problems| panic!("{nodes}\n{problems:#?}"));
    let layers: Vec<String> = graph.order().map(|id| format!("{id}{}", graph.layer(id).unwrap())).collect();
    assert_eq!(layers.join(" "), order, "{nodes}");
    let drawn: Vec<String> = graph
        .edges()
        .map(|edge| {
            let sign = match edge.kind {
                EdgeKind::Hard => '>',
                EdgeKind::Soft => '~',
                EdgeKind::Explicit => '=',
            };
            format!("{}{sign}{}", edge.from, edge.to)
        })
        .collect();
    assert_eq!(drawn.join(" "), edges, "{nodes}");
}

/// The only problem: its path, its reason and a part of its message.
fn check_problem(nodes: &str, path: &str, reason: &str, message: &str) {
    let problems = build(nodes).err().unwrap_or_else(|| panic!("compiles: {nodes}"));
    let found = problems.iter().any(|problem| {
        problem.path == path && problem.reason.to_string() == reason && problem.message.contains(message)
    });
    assert!(found, "{nodes}\nwanted {path} {reason} {message}\n{problems:#?}");
}

#[test]
fn declared_order_is_kept_where_references_allow_it() {
    check("[]", "", "");
    check(&(thing("a", "1") + &thing("b", "1") + &thing("c", "1")), "a1 b1 c1", "");
    check(&(thing("a", "${c.metadata.name}") + &thing("b", "1") + &thing("c", "1")), "b1 c1 a2", "c>a");
    check(
        &(thing("a", "1") + &thing("b", "${a.x}") + &thing("c", "${a.x + b.x}") + &thing("d", "${a.x}")),
        "a1 b2 c3 d2",
        "a>b a>c b>c a>d",
    );
}

#[test]
fn references_make_edges() {
    check(&(thing("a", "1") + &thing("b", "${a.?x.orValue(1)}")), "a1 b1", "a~b");
    check(&(thing("a", "1") + &thing("b", "${a[?\"x\"].orValue(1)}")), "a1 b1", "a~b");
    check(&(thing("a", "1") + &thing("b", "${a.x.?y.orValue(1)}")), "a1 b2", "a>b");
    check(&(thing("a", "1") + &thing("b", "${a.?x.orValue(a.y)}")), "a1 b2", "a>b");
    check(&(thing("a", "1") + &thing("b", "${has(a.x)}")), "a1 b2", "a>b");
    check(&(thing("a", "1") + &thing("b", "text ${a.x} and ${a.y}")), "a1 b2", "a>b");
    check(&(thing("a", "1") + &thing("b", "${[1].map(a, a)}")), "a1 b1", "");
    check(&(thing("a", "1") + &thing("b", "$${a.x}")), "a1 b1", "");
    check("- {id: a, def: 1}\n- {id: b, def: 2, dependsOn: [a]}", "a1 b2", "a=b");
    check("- {id: a, def: 1}\n- {id: b, def: '${a}', dependsOn: [a]}", "a1 b2", "a>b");
    check("- {id: a, def: 1}\n- {id: b, def: '${a.?x.orValue(1)}', dependsOn: [a]}", "a1 b2", "a~b a=b");
    check("- {id: a, def: 1}\n- {id: b, def: 2, includeWhen: ['${a == 1}']}", "a1 b2", "a>b");
    check("- {id: a, def: [1]}\n- {id: b, def: '${x}', forEach: [{x: '${a}'}]}", "a1 b2", "a>b");
    check("- {id: a, def: [1]}\n- {id: b, def: '${x}', forEach: {x: '${a}'}}", "a1 b2", "a>b");
    check(
        &(thing("a", "1")
            + "- {id: b, finalizes: a, template: {apiVersion: v1, kind: Pod, metadata: {name: b}}}"),
        "a1 b2",
        "a=b",
    );
}

#[test]
fn conditions_add_no_edges() {
    let node = "- {id: a, def: {x: true}, readyWhen: ['${a.x}'], propagateWhen: ['${a.x}']}";
    check(node, "a1", "");
    let two = "- {id: a, def: 1}\n- {id: b, def: '${a}', readyWhen: ['${a == b}']}";
    check(two, "a1 b2", "a>b");
    for modifier in ["readyWhen", "propagateWhen"] {
        let stranger = format!("- {{id: a, def: 1}}\n- {{id: b, def: 2, {modifier}: ['${{a == 1}}']}}");
        check_problem(
            &stranger,
            &format!("nodes[1].{modifier}[0]"),
            "DependencyError",
            "add `a` to dependsOn",
        );
        let single = format!("- {{id: a, def: 1, {modifier}: ['${{each == 1}}']}}");
        check_problem(&single, &format!("nodes[0].{modifier}[0]"), "ExpressionError", "each");
        let list = format!(
            "- {{id: a, def: '${{x}}', forEach: [{{x: '${{[1]}}'}}], {modifier}: ['${{each == 1}}']}}"
        );
        check(&list, "a1", "");
        let variable = list.replace("each ==", "x ==");
        check_problem(&variable, &format!("nodes[0].{modifier}[0]"), "ExpressionError", "x");
    }
}

#[test]
fn cycles_are_named_with_their_path() {
    let problem = |nodes: &str, message: &str| check_problem(nodes, "nodes[0]", "DependencyError", message);
    problem(&(thing("a", "${b.x}") + &thing("b", "${a.x}")), "`a → b → a`");
    problem(&(thing("a", "${c.x}") + &thing("b", "${a.x}") + &thing("c", "${b.x}")), "`a → c → b → a`");
    let late = thing("z", "1") + &thing("a", "${b.x}") + &thing("b", "${a.x}") + &thing("c", "${b.x}");
    check_problem(&late, "nodes[1]", "DependencyError", "`a → b → a`");
    problem("- {id: a, def: 1, dependsOn: [b]}\n- {id: b, def: '${a}'}", "`a → b → a`");
    problem("- {id: a, def: '${b.?x}'}\n- {id: b, def: '${a}'}", "`a → b → a`");
    // Through an object an optional reference breaks the circle.
    check(&(thing("a", "${b.?x.orValue(1)}") + &thing("b", "${a.x}")), "a1 b2", "b~a a>b");
    check_problem(&thing("a", "${a.x}"), "nodes[0].template.spec.v", "DependencyError", "refers to itself");
    check_problem("- {id: a, def: 1, dependsOn: [a]}", "nodes[0].dependsOn[0]", "DependencyError", "itself");
    check_problem(
        "- {id: a, def: 1, includeWhen: ['${a == 1}']}",
        "nodes[0].includeWhen[0]",
        "DependencyError",
        "itself",
    );
}

#[test]
fn a_long_chain_is_no_deep_recursion() {
    let mut nodes = "- {id: n0, def: 1}\n".to_owned();
    for at in 1..3000 {
        nodes += &format!("- {{id: n{at}, def: '${{n{}}}'}}\n", at - 1);
    }
    let graph = build(&nodes).unwrap();
    assert_eq!(graph.layer("n2999"), Some(3000));
    let ring = nodes.replacen("def: 1", "def: '${n2999}'", 1);
    assert!(build(&ring).is_err());
}

#[test]
fn names_are_checked() {
    let id = |id: &str, message: &str| {
        check_problem(&format!("- {{id: '{id}', def: 1}}"), "nodes[0].id", "DeclarationError", message);
    };
    for wrong in ["", "a-b", "1a", "a_b", "ä", "a b", &"x".repeat(64)] {
        id(wrong, "is not a node id");
    }
    for reserved in ["each", "item", "now", "true", "in", "namespace", "package", "loop", "string"] {
        id(reserved, "reserved");
    }
    check(&format!("- {{id: {}, def: 1}}", "x".repeat(63)), &format!("{}1", "x".repeat(63)), "");
    check_problem(
        "- {id: Ab, def: 1}\n- {id: aB, def: 1}",
        "nodes[1].id",
        "DeclarationError",
        "unique ignoring case",
    );
    let each = |variable: &str, message: &str| {
        let nodes =
            format!("- {{id: a, def: 1}}\n- {{id: b, def: 1, forEach: [{{'{variable}': '${{[1]}}'}}]}}");
        check_problem(&nodes, "nodes[1].forEach", "DeclarationError", message);
    };
    each("a", "name of a node");
    each("x-y", "is not a variable name");
    each("each", "reserved");
    check("- {id: b, def: '${item}', forEach: [{item: '${[1]}'}]}", "b1", "");
    check_problem(
        "- {id: b, def: 1, forEach: [{x: '${[1]}'}, {x: '${[1]}'}]}",
        "nodes[0].forEach",
        "DeclarationError",
        "twice",
    );
    check_problem(
        "- {id: b, def: 1, forEach: [{x: '${[1]}'}, {z: '${[x]}'}]}",
        "nodes[0].forEach.z",
        "ExpressionError",
        "x",
    );
}

#[test]
fn expressions_are_located() {
    let problems = build(&thing("a", "say ${b.name} ${1 +}")).unwrap_err();
    assert_eq!(problems[0].path, "nodes[0].template.spec.v");
    let (start, end) = problems[0].span.unwrap();
    assert!(start >= 6 && end <= 24, "{problems:#?}");
    check_problem(&thing("a", "${nope.x}"), "nodes[0].template.spec.v", "ExpressionError", "nope");
    check_problem(&thing("a", "${nope("), "nodes[0].template.spec.v", "ExpressionError", "");
    check_problem(
        "- {id: a, def: 1, readyWhen: ['true']}",
        "nodes[0].readyWhen[0]",
        "ExpressionError",
        "exactly one expression",
    );
    check_problem(
        "- {id: a, def: 1, includeWhen: ['${true} x']}",
        "nodes[0].includeWhen[0]",
        "ExpressionError",
        "exactly one",
    );
    check_problem(
        "- {id: a, def: 1, dependsOn: [b]}",
        "nodes[0].dependsOn[0]",
        "DependencyError",
        "there is no node `b`",
    );
    check_problem(
        "- {id: a, def: 1, dependsOn: [B]}\n- {id: b, def: 1}",
        "nodes[0].dependsOn[0]",
        "DependencyError",
        "did you mean `b`",
    );
    // All problems are reported, not only the first.
    let many = thing("a", "${x}") + &thing("b", "${z}") + "- {id: c, def: 1, dependsOn: [d]}";
    assert_eq!(build(&many).unwrap_err().len(), 3);
}

#[test]
fn bodies_have_a_shape() {
    let body = |node: &str, path: &str, message: &str| {
        check_problem(&format!("- {{id: a, {node}}}"), path, "DeclarationError", message);
    };
    body("def: 1, ref: {}", "nodes[0]", "both `ref` and `def`");
    body("dependsOn: []", "nodes[0]", "needs exactly one of");
    body("def: 1, readWhen: []", "nodes[0].readWhen", "unknown field `readWhen`");
    body("template: 5", "nodes[0].template", "must be a map");
    body("template: {kind: X, metadata: {name: a}}", "nodes[0].template.apiVersion", "must be a string");
    body(
        "template: {apiVersion: a/b/c, kind: X, metadata: {name: a}}",
        "nodes[0].template.apiVersion",
        "is not an apiVersion",
    );
    body("template: {apiVersion: v1, kind: X}", "nodes[0].template.metadata", "must be a map");
    body(
        "template: {apiVersion: v1, kind: X, metadata: {}}",
        "nodes[0].template.metadata.name",
        "must be a string",
    );
    body(
        "template: {apiVersion: v1, kind: X, metadata: {name: a, generateName: b}}",
        "nodes[0].template.metadata.generateName",
        "not supported",
    );
    body(
        "template: {apiVersion: v1, kind: X, metadata: {name: a, namespace: 1}}",
        "nodes[0].template.metadata.namespace",
        "string",
    );
    body(
        "template: {apiVersion: v1, kind: X, metadata: {name: a, labels: {internal.kro.run/x: b}}}",
        "nodes[0].template.metadata.labels",
        "reserved",
    );
    body(
        "ref: {apiVersion: v1, kind: X, metadata: {name: a}, spec: {}}",
        "nodes[0].ref.spec",
        "unknown field `spec`",
    );
    body(
        "ref: {apiVersion: v1, kind: X, metadata: {name: a, labels: {}}}",
        "nodes[0].ref.metadata.labels",
        "unknown field",
    );
    body(
        "watch: {apiVersion: v1, kind: X, selector: {labels: {}}}",
        "nodes[0].watch.selector",
        "matchLabels",
    );
    body(
        "watch: {apiVersion: v1, kind: X, selector: {matchExpressions: [{key: a, operator: In}]}}",
        "nodes[0].watch.selector",
        "need values",
    );
    body("watch: {apiVersion: v1, kind: X}, forEach: [{x: '${[1]}'}]", "nodes[0].forEach", "a list already");
    body("def: 1, finalizes: a", "nodes[0].finalizes", "template and patch");
    body("def: 1, recheckAfter: soon", "nodes[0].recheckAfter", "is not a duration");
    body("def: 1, recheckAfter: 1ms", "nodes[0].recheckAfter", "at least `1s`");
    body("def: 1, lifecycle: {apply: Perhaps}", "nodes[0].lifecycle.apply", "only `Force`");
    body("def: 1, lifecycle: {apply: Force}", "nodes[0].lifecycle.apply", "template nodes");
    body("def: 1, forEach: 5", "nodes[0].forEach", "must be a list");
    body("def: 1, forEach: [{a: 1, b: 2}]", "nodes[0].forEach", "one variable");
    body("def: 1, readyWhen: yes", "nodes[0].readyWhen", "must be a list of strings");
    check(
        "- {id: a, watch: {apiVersion: v1, kind: X, metadata: {namespace: n}, selector: {matchLabels: {x: '${1 == 1 ? \"a\" : \"b\"}'}}}}",
        "a1",
        "",
    );
}

#[test]
fn nothing_depends_on_what_only_finalizes() {
    let job = "- {id: f, finalizes: a, template: {apiVersion: v1, kind: Pod, metadata: {name: f}}}\n";
    let nodes = thing("a", "1") + job + &thing("b", "${f.metadata.name}");
    check_problem(&nodes, "nodes[2]", "DependencyError", "`finalizes`");
    let value = "- {id: a, def: 1}\n".to_owned() + job;
    check_problem(&value, "nodes[1].finalizes", "DependencyError", "only a template or patch");
    let included = job.replace("finalizes: a,", "finalizes: a, includeWhen: ['${true}'],");
    check_problem(&(thing("a", "1") + &included), "nodes[1].finalizes", "DeclarationError", "includeWhen");
}

#[test]
fn the_hash_follows_the_content_and_not_the_order() {
    let hash = |nodes: &str| build(nodes).unwrap().hash().to_owned();
    let (a, b) = (thing("a", "1"), thing("b", "2"));
    assert_eq!(hash(&(a.clone() + &b)), hash(&(b.clone() + &a)));
    assert_ne!(hash(&(a.clone() + &b)), hash(&(a.clone() + &thing("b", "3"))));
    assert_ne!(hash(&a), hash(&a.replace("template:", "patch:")));
}

#[test]
fn kinds_are_known_as_far_as_they_are_literal() {
    let nodes = thing("a", "1")
        + "- {id: r, ref: {apiVersion: v1, kind: Secret, metadata: {name: s}}}\n"
        + "- {id: d, template: {apiVersion: v1, kind: '${r.kind}', metadata: {name: s}}}\n";
    let graph = build(&nodes).unwrap();
    let names = |kinds: std::collections::BTreeSet<kardinal_object::Gvk>| {
        kinds.into_iter().map(|gvk| gvk.kind).collect::<Vec<_>>()
    };
    assert_eq!(names(graph.static_kinds()), ["Thing"]);
    assert_eq!(names(graph.reads()), ["Secret"]);
    assert!(graph.has_dynamic_kinds());
}
