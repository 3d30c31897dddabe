//! `apply`, client side and server side, and `diff`.

use crate::shell::Shell;

const WEB_IMAGE: &str = "kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'";

pub(crate) fn client_side_apply(shell: &Shell) -> anyhow::Result<()> {
    let created = ["configmap/settings created", "deployment.apps/web created", "service/web created"];
    shell.says("kubectl apply -f app.yaml", &created)?;
    let unchanged =
        ["configmap/settings unchanged", "deployment.apps/web unchanged", "service/web unchanged"];
    shell.says("kubectl apply -f app.yaml", &unchanged)?;
    shell.prints(WEB_IMAGE, "registry.example/web:1")?;

    // What others add stays, what the file drops goes, lists are merged by name.
    shell.says("kubectl label configmap settings owner=somebody", &["labeled"])?;
    shell.ok("kubectl set env deployment/web EXTRA=kept")?;
    let configured =
        ["configmap/settings configured", "deployment.apps/web configured", "service/web unchanged"];
    shell.says("kubectl apply -f app-next.yaml", &configured)?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data}'", r#"{"colour":"green"}"#)?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.metadata.labels.owner}'", "somebody")?;
    shell.prints(WEB_IMAGE, "registry.example/web:2")?;
    let names = "kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].env[*].name}'";
    let names = shell.ok(names)?;
    let mut sorted: Vec<&str> = names.out.split_whitespace().collect();
    sorted.sort_unstable();
    anyhow::ensure!(sorted == ["COLOUR", "EXTRA", "SHAPE"], "unexpected variables: {sorted:?}");
    shell.prints("kubectl get deployment web -o jsonpath='{.metadata.generation}'", "3")?;

    shell
        .says("kubectl apply view-last-applied configmap/settings", &["colour: green"])?
        .without(&["obsolete"])?;
    shell
        .says("kubectl apply -f app.yaml -l tier=front --prune=false", &["deployment.apps/web configured"])?;
    Ok(())
}

pub(crate) fn client_side_apply_of_our_kinds(shell: &Shell) -> anyhow::Result<()> {
    let created = [
        "pipeline.kardinal.io/shop created",
        "bundle.kardinal.io/shop-1 created",
        "policygate.kardinal.io/no-weekend created",
        "graph.experimental.kro.run/values created",
    ];
    shell.says("kubectl apply -f delivery.yaml", &created)?;
    shell.says(
        "kubectl apply -f delivery.yaml",
        &["bundle.kardinal.io/shop-1 unchanged", "graph.experimental.kro.run/values unchanged"],
    )?;
    // Defaults come from the schema.
    shell.prints("kubectl get policygate no-weekend -o jsonpath='{.spec.recheckInterval}'", "5m")?;
    shell
        .ok("sed 's/not on a weekend/never on a weekend/' delivery.yaml | kubectl apply -f -")?
        .with(&["policygate.kardinal.io/no-weekend configured", "bundle.kardinal.io/shop-1 unchanged"])?;
    shell.prints("kubectl get pg no-weekend -o jsonpath='{.spec.message}'", "never on a weekend")?;
    shell.prints("kubectl get pg no-weekend -o jsonpath='{.metadata.generation}'", "2")?;
    // A Bundle cannot be changed; the refusal names the field and the way out.
    let changed = "sed 's/shop:1/shop:2/' delivery.yaml | kubectl apply -f -";
    shell.refuses(
        changed,
        &["shop-1", "is invalid", "spec: Forbidden", "a Bundle is immutable: create a new one instead"],
    )?;
    Ok(())
}

fn owned(colour: &str, shape: &str) -> String {
    let data = [("colour", colour), ("shape", shape)];
    let data: String = data
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| format!("  {key}: {value}\n"))
        .collect();
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\ndata:\n{data}")
}

pub(crate) fn server_side_apply(shell: &Shell) -> anyhow::Result<()> {
    let apply = |manager: &str| format!("kubectl apply --server-side --field-manager={manager} -f -");
    let data = "kubectl get configmap owned -o jsonpath='{.data}'";
    let applied = shell.feed(&apply("alice"), &owned("blue", "round"))?.succeeded()?;
    applied.with(&["configmap/owned serverside-applied"])?;
    shell
        .feed(&apply("bob"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: owned}\ndata: {size: big}\n")?
        .succeeded()?;
    shell.prints(data, r#"{"colour":"blue","shape":"round","size":"big"}"#)?;
    // What a manager stops applying is removed, and only that.
    shell.feed(&apply("alice"), &owned("blue", ""))?.succeeded()?;
    shell.prints(data, r#"{"colour":"blue","size":"big"}"#)?;
    let managers = "kubectl get configmap owned --show-managed-fields -o jsonpath='{range .metadata.managedFields[*]}{.manager}/{.operation} {end}'";
    let managers = shell.ok(managers)?;
    let mut sorted: Vec<&str> = managers.out.split_whitespace().collect();
    sorted.sort_unstable();
    anyhow::ensure!(sorted == ["alice/Apply", "bob/Apply"], "unexpected managers: {sorted:?}");
    // Applying the same again changes nothing, not even the version.
    let version = "kubectl get configmap owned -o jsonpath='{.metadata.resourceVersion}'";
    let before = shell.ok(version)?.out;
    shell.feed(&apply("alice"), &owned("blue", ""))?.succeeded()?;
    shell.prints(version, &before)?;

    // Lists of built-in kinds and of our own are merged by their keys.
    shell.ok(&format!("{} <app.yaml", apply("alice")))?.with(&["deployment.apps/web serverside-applied"])?;
    let sidecar = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      containers:\n        - {name: sidecar, image: registry.example/sidecar:1}\n";
    shell.feed(&apply("bob"), sidecar)?.succeeded()?;
    let names = "kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[*].name}'";
    shell.prints(names, "web sidecar")?;
    shell.ok(&format!("{} <app.yaml", apply("alice")))?;
    shell.prints(names, "web sidecar")?;
    shell.ok(&format!("{} <delivery.yaml", apply("alice")))?.with(&[
        "pipeline.kardinal.io/shop serverside-applied",
        "bundle.kardinal.io/shop-1 serverside-applied",
        "policygate.kardinal.io/no-weekend serverside-applied",
        "graph.experimental.kro.run/values serverside-applied",
    ])?;
    Ok(())
}

pub(crate) fn server_side_conflicts(shell: &Shell) -> anyhow::Result<()> {
    let apply = |manager: &str| format!("kubectl apply --server-side --field-manager={manager} -f -");
    shell.feed(&apply("alice"), &owned("blue", ""))?.succeeded()?;
    let conflict = shell.feed(&apply("bob"), &owned("red", ""))?;
    conflict.refused(&["conflict with \"alice\"", ".data.colour", "--force-conflicts"])?;
    shell.prints("kubectl get configmap owned -o jsonpath='{.data.colour}'", "blue")?;
    // Two managers that agree share the field.
    shell.feed(&apply("carol"), &owned("blue", ""))?.succeeded()?;
    let conflict = shell.feed(&apply("bob"), &owned("red", ""))?;
    conflict.refused(&["conflicts with \"alice\"", "conflicts with \"carol\"", ".data.colour"])?;
    let forced = format!("{} --force-conflicts", apply("bob"));
    shell.feed(&forced, &owned("red", ""))?.succeeded()?;
    shell.prints("kubectl get configmap owned -o jsonpath='{.data.colour}'", "red")?;
    shell.feed(&apply("alice"), &owned("blue", ""))?.refused(&["conflict with \"bob\"", ".data.colour"])?;
    // An update by hand owns fields too.
    shell.ok("kubectl patch configmap owned --type merge -p '{\"data\":{\"colour\":\"black\"}}' --field-manager=by-hand")?;
    shell.feed(&apply("bob"), &owned("red", ""))?.refused(&["conflict with \"by-hand\"", ".data.colour"])?;

    // The same on one of our kinds.
    let gate = |expression: &str| {
        format!(
            "apiVersion: kardinal.io/v1alpha1\nkind: PolicyGate\nmetadata: {{name: soak}}\nspec: {{expression: \"{expression}\"}}\n"
        )
    };
    shell.feed(&apply("alice"), &gate("true"))?.succeeded()?;
    shell.feed(&apply("bob"), &gate("false"))?.refused(&["conflict with \"alice\"", ".spec.expression"])?;
    Ok(())
}

pub(crate) fn migration_to_server_side(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml")?;
    // kubectl moves what it owned to the new manager, so dropped fields go although they were applied the old way.
    shell.says("kubectl apply --server-side -f app-next.yaml", &["configmap/settings serverside-applied"])?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data}'", r#"{"colour":"green"}"#)?;
    shell.prints(WEB_IMAGE, "registry.example/web:2")?;
    let managers = "kubectl get configmap settings --show-managed-fields -o jsonpath='{.metadata.managedFields[*].manager}'";
    shell.says(managers, &["kubectl"])?.without(&["client-side-apply"])?;
    Ok(())
}

pub(crate) fn diff(shell: &Shell) -> anyhow::Result<()> {
    let everything_new = ["+kind: ConfigMap", "+  name: web", "+    image: registry.example/web:1"];
    let new = shell.run("kubectl diff -f app.yaml")?.ended(1)?;
    new.with(&everything_new[..2])?.with(&["registry.example/web:1"])?;
    shell.refuses("kubectl get configmap settings", &["NotFound"])?;
    shell.ok("kubectl apply -f app.yaml")?;
    shell.prints("kubectl diff -f app.yaml", "")?;
    let changed = shell.run("kubectl diff -f app-next.yaml")?.ended(1)?;
    let changed = changed.with(&[
        "-  colour: blue",
        "+  colour: green",
        "-  obsolete: \"yes\"",
        "-  replicas: 2",
        "+  replicas: 3",
        "-        image: registry.example/web:1",
        "+        image: registry.example/web:2",
    ])?;
    // Only what somebody changed is shown.
    changed.without(&["creationTimestamp: null", "  uid: null", "targetPort"])?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data.colour}'", "blue")?;
    let server_side = shell.run("kubectl diff --server-side --force-conflicts -f app-next.yaml")?.ended(1)?;
    server_side.with(&["+  colour: green", "+        image: registry.example/web:2"])?;

    shell.ok("kubectl apply -f delivery.yaml")?;
    shell.prints("kubectl diff -f delivery.yaml", "")?;
    let gate = shell.run("sed 's/not on a weekend/never/' delivery.yaml | kubectl diff -f -")?.ended(1)?;
    gate.with(&["-  message: not on a weekend", "+  message: never"])?.without(&["kind: Bundle"])?;
    Ok(())
}
