//! `edit` through a scripted editor, the three kinds of `patch`, `label` and `annotate`.

use crate::shell::Shell;

pub(crate) fn edit(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    shell.says(
        "KUBE_EDITOR='sed -i s/blue/violet/' kubectl edit configmap/settings",
        &["configmap/settings edited"],
    )?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data.colour}'", "violet")?;
    let untouched = shell.ok("KUBE_EDITOR=true kubectl edit configmap/settings")?;
    anyhow::ensure!(
        untouched.err.contains("Edit cancelled, no changes made"),
        "unexpected: {}",
        untouched.err
    );
    shell.says(
        "KUBE_EDITOR='sed -i s/web:1/web:7/' kubectl edit deployment web",
        &["deployment.apps/web edited"],
    )?;
    let image = "kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'";
    shell.prints(image, "registry.example/web:7")?;
    let edited = ["policygate.kardinal.io/no-weekend edited"];
    shell.says("KUBE_EDITOR='sed -i s/isWeekend/isHoliday/' kubectl edit pg no-weekend", &edited)?;
    shell.prints("kubectl get pg no-weekend -o jsonpath='{.spec.expression}'", "!schedule.isHoliday")?;
    shell.says(
        "KUBE_EDITOR='sed -i s/violet/grey/' kubectl edit configmap/settings -o json",
        &["\"colour\": \"grey\""],
    )?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data.colour}'", "grey")?;
    // What the server refuses is shown to the user with the reason, and nothing changes.
    let editor = shell.write("editor", "cp \"$1\" $HOME/seen; sed -i s/shop:1/shop:2/ \"$1\"\n")?;
    let refused = shell.run(&format!("KUBE_EDITOR='sh {editor}' kubectl edit bundle shop-1"))?;
    refused.refused(&["is invalid", "no valid changes were saved"])?;
    shell.says(
        "cat $HOME/seen",
        &["# bundles.kardinal.io \"shop-1\" was not valid:", "a Bundle is immutable"],
    )?;
    shell.prints(
        "kubectl get bundle shop-1 -o jsonpath='{.spec.artifacts.images[0].reference}'",
        "registry.example/shop:1",
    )
}

pub(crate) fn patches(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    let names = "kubectl get deployment web -o jsonpath='{.spec.template.spec.containers[*].name}'";
    // Strategic: lists are merged by their keys.
    let sidecar = r#"{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"registry.example/sidecar:1"}]}}}}"#;
    shell.says(&format!("kubectl patch deployment web -p '{sidecar}'"), &["deployment.apps/web patched"])?;
    anyhow::ensure!(shell.ok(names)?.out.split_whitespace().count() == 2, "both containers should be there");
    let gone = r#"{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","$patch":"delete"}]}}}}"#;
    shell.ok(&format!("kubectl patch deployment web -p '{gone}'"))?;
    shell.prints(names, "web")?;
    shell.says("kubectl patch deployment web -p '{\"spec\":{\"replicas\":2}}'", &["(no change)"])?;
    // Merge: lists are replaced, null removes.
    let alone = r#"{"spec":{"template":{"spec":{"containers":[{"name":"alone","image":"registry.example/alone:1"}]}}}}"#;
    shell.ok(&format!("kubectl patch deployment web --type merge -p '{alone}'"))?;
    shell.prints(names, "alone")?;
    shell.ok(
        "kubectl patch configmap settings --type merge -p '{\"data\":{\"obsolete\":null,\"new\":\"1\"}}'",
    )?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data}'", r#"{"colour":"blue","new":"1"}"#)?;
    shell.ok("kubectl patch pg no-weekend --type merge -p '{\"spec\":{\"message\":\"merged\"}}'")?;
    shell.prints(
        "kubectl get pg no-weekend -o jsonpath='{.spec.message} {.spec.recheckInterval}'",
        "merged 5m",
    )?;
    // JSON: every operation or none.
    let patch = r#"[{"op":"test","path":"/data/colour","value":"blue"},{"op":"replace","path":"/data/colour","value":"red"},{"op":"copy","from":"/data/new","path":"/data/again"},{"op":"remove","path":"/data/new"}]"#;
    shell.ok(&format!("kubectl patch configmap settings --type json -p '{patch}'"))?;
    shell
        .prints("kubectl get configmap settings -o jsonpath='{.data}'", r#"{"again":"1","colour":"red"}"#)?;
    let failing =
        r#"[{"op":"remove","path":"/data/again"},{"op":"test","path":"/data/colour","value":"blue"}]"#;
    shell.refuses(&format!("kubectl patch configmap settings --type json -p '{failing}'"), &["invalid"])?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data.again}'", "1")?;
    let pipeline = r#"[{"op":"add","path":"/spec/environments/-","value":{"name":"last"}}]"#;
    shell.ok(&format!("kubectl patch pipeline shop --type json -p '{pipeline}'"))?;
    shell.prints("kubectl get pipeline shop -o jsonpath='{.spec.environments[*].name}'", "dev prod last")?;
    // Strategic merge needs a built-in kind.
    let unsupported =
        ["is not supported by kardinal.io/v1alpha1, Kind=PolicyGate", "application/merge-patch+json"];
    shell.refuses("kubectl patch pg no-weekend -p '{\"spec\":{\"message\":\"x\"}}'", &unsupported)?;
    shell.refuses(
        "kubectl patch configmap settings --type json -p '[{\"op\":\"fly\",\"path\":\"/data\"}]'",
        &[],
    )?;
    Ok(())
}

pub(crate) fn status_patches(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    let both = r#"{"spec":{"message":"changed"},"status":{"ready":true,"reason":"asked"}}"#;
    // The main resource leaves the status alone, and the status subresource the rest.
    shell.ok(&format!("kubectl patch pg no-weekend --type merge -p '{both}'"))?;
    shell.prints("kubectl get pg no-weekend -o jsonpath='{.spec.message}/{.status.ready}'", "changed/")?;
    let again = both.replace("changed", "ignored");
    shell.ok(&format!("kubectl patch pg no-weekend --subresource=status --type merge -p '{again}'"))?;
    shell
        .prints("kubectl get pg no-weekend -o jsonpath='{.spec.message}/{.status.ready}'", "changed/true")?;
    shell.prints("kubectl get pg no-weekend -o jsonpath='{.metadata.generation}'", "2")?;
    let condition = r#"{"status":{"replicas":2,"conditions":[{"type":"Available","status":"True"}]}}"#;
    shell.ok(&format!("kubectl patch deployment web --subresource=status -p '{condition}'"))?;
    shell.prints(
        "kubectl get deployment web -o jsonpath='{.status.conditions[0].type} {.metadata.generation}'",
        "Available 1",
    )?;
    shell.says("kubectl get pg no-weekend --subresource=status -o yaml", &["ready: true"])?;
    Ok(())
}

pub(crate) fn labels_and_annotations(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    shell.says("kubectl label configmap settings stage=one", &["configmap/settings labeled"])?;
    let refusal = ["'stage' already has a value (one), and --overwrite is false"];
    shell.refuses("kubectl label configmap settings stage=two", &refusal)?;
    shell.ok("kubectl label configmap settings stage=two --overwrite")?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.metadata.labels.stage}'", "two")?;
    shell.says("kubectl label configmap settings stage-", &["configmap/settings unlabeled"])?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.metadata.labels.stage}'", "")?;
    let all = ["deployment.apps/web labeled", "configmap/settings labeled", "service/web labeled"];
    shell.says("kubectl label deployments,configmaps,services -l app=web team=blue", &all)?;
    shell.says("kubectl label pg --all team=blue", &["policygate.kardinal.io/no-weekend labeled"])?;
    shell.says(
        "kubectl get pg,configmaps -l team=blue -o name",
        &["policygate.kardinal.io/no-weekend", "configmap/settings"],
    )?;
    shell.refuses("kubectl label configmap settings stage=one --resource-version=1", &["Conflict"])?;
    shell.refuses("kubectl label configmap settings 'stage=not a label'", &["stage", "valid label"])?;
    shell.says(
        "kubectl annotate configmap settings note='some words, with spaces'",
        &["configmap/settings annotated"],
    )?;
    shell.prints(
        "kubectl get configmap settings -o jsonpath='{.metadata.annotations.note}'",
        "some words, with spaces",
    )?;
    shell.refuses("kubectl annotate configmap settings note=other", &["--overwrite is false"])?;
    shell.ok("kubectl annotate configmap settings note-")?;
    shell.says(
        "kubectl annotate graph values kardinal.io/pin=true",
        &["graph.experimental.kro.run/values annotated"],
    )?;
    shell
        .prints("kubectl get graph values -o jsonpath='{.metadata.annotations.kardinal\\.io/pin}'", "true")?;
    // Metadata is not part of what a generation counts.
    shell.prints("kubectl get graph values -o jsonpath='{.metadata.generation}'", "1")
}
