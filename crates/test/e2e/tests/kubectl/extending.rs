//! A definition that has nothing to do with us, from its creation to its end.

use anyhow::ensure;

use crate::shell::Shell;

pub(crate) fn a_plain_definition(shell: &Shell) -> anyhow::Result<()> {
    shell.refuses("kubectl get widgets", &["the server doesn't have a resource type \"widgets\""])?;
    shell.says(
        "kubectl apply -f widgets.yaml",
        &["customresourcedefinition.apiextensions.k8s.io/widgets.example.org created"],
    )?;
    shell.ok("kubectl wait crd/widgets.example.org --for=condition=Established --timeout=60s")?;
    let found =
        shell.follow("kubectl wait crd/widgets.example.org --for=condition=NamesAccepted --timeout=60s")?;
    ensure!(found.ends()?, "the names should be accepted");
    shell.says(
        "kubectl apply --server-side --field-manager=maker -f widget.yaml",
        &["widget.example.org/axle serverside-applied"],
    )?;
    let values = "kubectl get wd axle -o jsonpath='{.spec.colour} {.spec.replicas} {.spec.port}'";
    shell.prints(values, "grey 1 http")?;
    let table = shell.soon_says("kubectl get widgets", &["axle"])?;
    let rows = table.rows();
    ensure!(rows.first() == Some(&vec!["NAME", "SIZE", "REPLICAS", "AGE"]), "{}", table.out);
    ensure!(rows.get(1).is_some_and(|row| row.starts_with(&["axle", "small", "1"])), "{}", table.out);
    shell.says("kubectl get parts -o wide", &["COLOUR", "grey"])?;
    shell.soon_says(
        "kubectl explain widget.spec --recursive",
        &["What the part shall be.", "size\t<string> -required-", "holes\t<[]Object>"],
    )?;
    shell.says("kubectl describe widget axle", &["Size:", "small"])?;
    shell
        .prints("kubectl get widgets --field-selector spec.size=small -o name", "widget.example.org/axle")?;
    shell.prints("kubectl get widgets --field-selector spec.size=large -o name", "")?;
    refusals(shell)?;
    // The scale subresource of a kind that the server learnt a moment ago.
    shell.says("kubectl scale widget/axle --replicas=3", &["widget.example.org/axle scaled"])?;
    shell.prints("kubectl get widget axle -o jsonpath='{.spec.replicas}'", "3")?;
    shell
        .refuses("kubectl scale widget/axle --replicas=4", &["a small widget has at most three replicas"])?;
    let hole = "kubectl apply --server-side --field-manager=driller -f -";
    let bored = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: axle}\nspec: {holes: [{name: right, depth: 5}]}\n";
    shell.feed(hole, bored)?.succeeded()?;
    shell.prints("kubectl get widget axle -o jsonpath='{.spec.holes[*].name}'", "left right")?;
    let deeper = bored.replace("right", "left");
    shell.feed(hole, &deeper)?.refused(&["conflict with \"maker\"", ".spec.holes[name=\"left\"].depth"])?;

    shell.ok("kubectl delete crd widgets.example.org --timeout=60s")?;
    shell.refuses("kubectl get --raw /apis/example.org/v1/widgets", &["NotFound"])?;
    shell.ok("kubectl api-resources -o name")?.without(&["widgets.example.org"])?;
    Ok(())
}

fn refusals(shell: &Shell) -> anyhow::Result<()> {
    let patch = |patch: &str| format!("kubectl patch widget axle --type merge -p '{patch}'");
    shell.refuses(
        &patch(r#"{"spec":{"replicas":11}}"#),
        &["spec.replicas", "should be less than or equal to 10"],
    )?;
    shell.refuses(
        &patch(r#"{"spec":{"replicas":4}}"#),
        &["spec: Invalid value", "a small widget has at most three replicas"],
    )?;
    shell.refuses(&patch(r#"{"spec":{"size":"large"}}"#), &["the size is for ever"])?;
    shell.refuses(
        &patch(r#"{"spec":{"size":"huge"}}"#),
        &["Unsupported value: \"huge\"", "\"small\", \"large\""],
    )?;
    shell.refuses(
        "sed 's/colour/color/; s/size: small/size: small\\n  colr: red/' widget.yaml | kubectl apply -f -",
        &["unknown field \"spec.colr\""],
    )?;
    shell.refuses("sed 's/depth: 3 }/depth: 3 }\\n    - { name: left }/' widget.yaml | kubectl apply --server-side --force-conflicts -f -", &["left"])?;
    let bad = "sed 's/type: object/type: thing/' widgets.yaml | sed 's/widgets/gadgets/; s/widget$/gadget/; s/Widget/Gadget/' | kubectl create -f -";
    shell.refuses(bad, &["is invalid", "openAPIV3Schema"])?;
    Ok(())
}
