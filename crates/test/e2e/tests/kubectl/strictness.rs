//! What is refused, and whether the words tell the user what to correct.

use crate::shell::Shell;

pub(crate) fn misspelt_fields(shell: &Shell) -> anyhow::Result<()> {
    let unknown = ["strict decoding error: unknown field \"spec.replica\""];
    shell.refuses("sed 's/replicas:/replica:/' app.yaml | kubectl apply -f -", &unknown)?;
    shell.refuses("kubectl get deployment web", &["NotFound"])?;
    let deep = ["unknown field \"spec.template.spec.containers[0].imagee\""];
    shell.refuses("sed 's/image:/imagee:/' app.yaml | kubectl apply -f -", &deep)?;
    shell.refuses("sed 's/replicas:/replica:/' app.yaml | kubectl apply --server-side -f -", &["replica"])?;
    shell.refuses(
        "sed 's/message:/mesage:/' delivery.yaml | kubectl apply -f -",
        &["unknown field \"spec.mesage\""],
    )?;
    shell.refuses(
        "sed 's/message:/mesage:/' delivery.yaml | kubectl create -f -",
        &["unknown field \"spec.mesage\""],
    )?;
    let server_side = "sed 's/message:/mesage:/' delivery.yaml | kubectl apply --server-side -f -";
    shell.refuses(server_side, &["mesage"])?;
    shell.refuses("kubectl get pg no-weekend", &["NotFound"])?;

    let warned = shell.ok("sed 's/replicas:/replica:/' app.yaml | kubectl apply --validate=warn -f -")?;
    anyhow::ensure!(
        warned.err.contains("Warning: unknown field \"spec.replica\""),
        "no warning: {}",
        warned.err
    );
    shell.prints("kubectl get deployment web -o jsonpath='{.spec.replicas}{.spec.replica}'", "1")?;
    let ignored =
        shell.ok("sed 's/message:/mesage:/' delivery.yaml | kubectl apply --validate=ignore -f -")?;
    ignored.without(&["Warning"])?;
    shell.prints("kubectl get pg no-weekend -o jsonpath='{.spec.mesage}{.spec.message}'", "")?;
    let patch = "kubectl patch pg no-weekend --type merge -p '{\"spec\":{\"mesage\":\"x\"}}'";
    let warned = shell.ok(patch)?;
    anyhow::ensure!(
        warned.err.contains("Warning: unknown field \"spec.mesage\""),
        "no warning: {}",
        warned.err
    );
    Ok(())
}

pub(crate) fn wrong_values(shell: &Shell) -> anyhow::Result<()> {
    let refuses = |from: &str, to: &str, file: &str, fragments: &[&str]| {
        shell.refuses(&format!("sed 's/{from}/{to}/' {file} | kubectl apply -f -"), fragments)
    };
    refuses("replicas: 2", "replicas: two", "app.yaml", &["BadRequest"])?;
    refuses(
        "matchLabels: { app: web }",
        "matchLabels: { app: other }",
        "app.yaml",
        &["`selector` does not match template `labels`"],
    )?;
    refuses("name: web$", "name: Not_A_Name", "app.yaml", &["Not_A_Name", "lowercase RFC 1123"])?;
    refuses(
        "port: 80$",
        "port: 99999",
        "app.yaml",
        &["spec.ports[0].port", "99999", "must be between 1 and 65535"],
    )?;
    refuses(
        "type: image",
        "type: parcel",
        "delivery.yaml",
        &["spec.type: Unsupported value: \"parcel\"", "supported values"],
    )?;
    refuses("  expression: .*", "  when: pre-deploy", "delivery.yaml", &["spec.expression: Required value"])?;
    refuses("name: prod", "name: dev", "delivery.yaml", &["spec.environments[1]: Duplicate value"])?;
    refuses(
        "message: .*",
        "message: 7",
        "delivery.yaml",
        &["spec.message", "must be of type string: \"integer\""],
    )?;
    let itself = "s/approval: pr-review/dependsOn: [prod]/";
    let refused = shell.run(&format!("sed '{itself}' delivery.yaml | kubectl apply -f -"))?;
    refused.refused(&["spec.environments[1]", "an environment cannot depend on itself"])?;
    // Everything that is wrong with an object is said at once.
    let twice = "sed 's/  expression: .*/  when: never/; s/  message: .*/  recheckInterval: often/' delivery.yaml | kubectl apply -f -";
    shell.refuses(
        twice,
        &[
            "spec.expression: Required value",
            "spec.when: Unsupported value: \"never\"",
            "spec.recheckInterval",
        ],
    )?;
    let two_nodes = "sed 's/      def:/      template: {}\\n      def:/' delivery.yaml | kubectl apply -f -";
    shell.refuses(two_nodes, &["spec.nodes[0]"])?;
    Ok(())
}

pub(crate) fn unknown_things(shell: &Shell) -> anyhow::Result<()> {
    shell.refuses(
        "kubectl get configmap nobody",
        &["Error from server (NotFound): configmaps \"nobody\" not found"],
    )?;
    shell.refuses("kubectl get pg nobody", &["policygates.kardinal.io \"nobody\" not found"])?;
    shell.prints("kubectl get configmap nobody --ignore-not-found", "")?;
    shell.refuses("kubectl get gizmos", &["the server doesn't have a resource type \"gizmos\""])?;
    shell.refuses("kubectl -n nowhere create configmap x", &["namespaces \"nowhere\" not found"])?;
    let kind =
        "printf 'apiVersion: nobody.example/v1\\nkind: Gizmo\\nmetadata: {name: x}\\n' | kubectl apply -f -";
    shell.refuses(kind, &["no matches for kind \"Gizmo\" in version \"nobody.example/v1\""])?;
    shell.refuses("kubectl get configmaps -l 'a=b=c'", &["a=b=c"])?;
    shell.refuses("kubectl get configmaps --field-selector data.colour=blue", &["data.colour"])?;
    shell.refuses(
        "kubectl get pg --field-selector spec.expression=x",
        &["field label not supported: spec.expression"],
    )?;
    shell.refuses("kubectl get --raw /apis/nobody.example/v1", &["NotFound"])?;
    shell.refuses("kubectl --token=wrong get configmaps", &["You must be logged in to the server"])?;
    Ok(())
}

pub(crate) fn bad_queries_delete_nothing(shell: &Shell) -> anyhow::Result<()> {
    shell.make_map("survivor")?;
    for query in [
        "labelSelector=a%20in",
        "fieldSelector=data.a%3Db",
        "continue=garbage",
        "limit=many",
        "resourceVersion=old",
        "timeoutSeconds=soon",
        "resourceVersion=1&resourceVersionMatch=Sometimes",
    ] {
        shell.refuses(
            &format!("kubectl delete --raw '/api/v1/namespaces/{}/configmaps?{query}'", shell.namespace),
            &[],
        )?;
    }
    shell.prints("kubectl get configmaps -o name", "configmap/survivor")
}
