//! `delete`, with its three ways of treating dependents.

use crate::shell::Shell;

/// An owner, and a dependent that refers to it; the dependent may be held by a finalizer.
fn family(shell: &Shell, finalizer: &str) -> anyhow::Result<()> {
    shell.make_map("parent")?;
    let uid = shell.ok("kubectl get configmap parent -o jsonpath='{.metadata.uid}'")?.out;
    let gate = |name: &str, finalizer: &str, owner: &str, uid: &str| {
        format!(
            "apiVersion: kardinal.io/v1alpha1
kind: PolicyGate
metadata:
  name: {name}
  finalizers: [{finalizer}]
  ownerReferences:
    - {{apiVersion: v1, kind: ConfigMap, name: {owner}, uid: {uid}, blockOwnerDeletion: true}}
spec:
  expression: \"true\"
"
        )
    };
    let created = ["policygate.kardinal.io/child created"];
    shell
        .feed("kubectl create -f -", &gate("child", finalizer, "parent", &uid))?
        .succeeded()?
        .with(&created)?;
    // A collector that runs beside its server learns of new kinds and objects late. It has seen the child when it has
    // taken away an orphan that was made after it.
    let nobody = "00000000-0000-4000-8000-000000000000";
    shell.feed("kubectl create -f -", &gate("orphan", "", "nobody", nobody))?.succeeded()?;
    shell.ok("kubectl wait pg/orphan --for=delete --timeout=100s")?;
    Ok(())
}

const RELEASE: &str = "kubectl patch pg child --type merge -p '{\"metadata\":{\"finalizers\":null}}'";

pub(crate) fn cascade_background(shell: &Shell) -> anyhow::Result<()> {
    family(shell, "example.org/hold")?;
    // The owner goes at once, although its dependent is still held.
    shell.says("kubectl delete configmap parent --cascade=background", &["configmap \"parent\" deleted"])?;
    shell.refuses("kubectl get configmap parent", &["NotFound"])?;
    shell.ok("kubectl wait --for=jsonpath='{.metadata.deletionTimestamp}' pg/child --timeout=60s")?;
    shell.ok(RELEASE)?;
    shell.ok("kubectl wait --for=delete pg/child --timeout=60s")?;
    shell.refuses("kubectl get pg child", &["NotFound"])?;
    Ok(())
}

pub(crate) fn cascade_foreground(shell: &Shell) -> anyhow::Result<()> {
    family(shell, "example.org/hold")?;
    shell.ok("kubectl delete configmap parent --cascade=foreground --wait=false")?;
    // The owner stays until its dependents are gone.
    shell.ok("kubectl wait --for=jsonpath='{.metadata.deletionTimestamp}' pg/child --timeout=60s")?;
    let state =
        "kubectl get configmap parent -o jsonpath='{.metadata.finalizers} {.metadata.deletionTimestamp}'";
    shell.says(state, &["[\"foregroundDeletion\"] 2"])?;
    let deletion = shell.follow("kubectl wait --for=delete configmap/parent --timeout=60s")?;
    shell.ok(RELEASE)?;
    anyhow::ensure!(deletion.ends()?, "the owner should go when its dependent is gone");
    shell.refuses("kubectl get pg child", &["NotFound"])?;
    Ok(())
}

pub(crate) fn cascade_orphan(shell: &Shell) -> anyhow::Result<()> {
    family(shell, "")?;
    shell.says("kubectl delete configmap parent --cascade=orphan", &["configmap \"parent\" deleted"])?;
    shell.refuses("kubectl get configmap parent", &["NotFound"])?;
    shell.prints(
        "kubectl get pg child -o jsonpath='{.metadata.ownerReferences}{.metadata.deletionTimestamp}'",
        "",
    )
}

pub(crate) fn deleting_by_selection(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    shell.make_map("other")?;
    let answer = shell.ok("kubectl delete configmaps,pg -l 'app in (web,shop)'")?;
    let deleted = ["configmap \"settings\" deleted", "policygate.kardinal.io \"no-weekend\" deleted"];
    answer.with(&deleted)?.without(&["other"])?;
    shell.prints("kubectl get configmaps -o name", "configmap/other")?;
    shell.ok("kubectl delete configmap --all")?;
    shell.prints("kubectl get configmaps -o name", "")?;
    shell.refuses("kubectl delete configmap other", &["NotFound"])?;
    shell.ok("kubectl delete configmap other --ignore-not-found")?;
    shell.ok("kubectl delete -f app.yaml --ignore-not-found")?.with(&["deployment.apps \"web\" deleted"])?;
    shell.prints("kubectl get deployments,services -o name", "")?;
    // Nothing runs a Pod here, so its deletion has to be forced or to end by itself.
    shell.ok("kubectl run box --image=registry.example/box:1")?;
    shell.ok("kubectl delete pod box --grace-period=0 --force")?;
    shell.refuses("kubectl get pod box", &["NotFound"])?;
    shell.ok("kubectl delete --raw /apis/kardinal.io/v1alpha1/namespaces/$NS/pipelines/shop")?;
    shell.refuses("kubectl get pipeline shop", &["NotFound"])?;
    Ok(())
}

pub(crate) fn deleting_a_namespace(shell: &Shell) -> anyhow::Result<()> {
    shell
        .feed("kubectl create -f -", "apiVersion: v1\nkind: Namespace\nmetadata: {name: doomed}\n")?
        .succeeded()?;
    shell.ok("kubectl -n doomed apply -f app.yaml -f delivery.yaml")?;
    let held = "kubectl -n doomed patch pg no-weekend --type merge -p '{\"metadata\":{\"finalizers\":[\"example.org/hold\"]}}'";
    shell.ok(held)?;
    shell.ok("kubectl delete namespace doomed --wait=false")?;
    shell.ok("kubectl -n doomed wait --for=delete configmap/settings --timeout=60s")?;
    shell.prints("kubectl get namespace doomed -o jsonpath='{.status.phase}'", "Terminating")?;
    shell.refuses(
        "kubectl -n doomed create configmap late",
        &["is forbidden", "because it is being terminated"],
    )?;
    shell.ok(&held.replace("[\"example.org/hold\"]", "null"))?;
    shell.ok("kubectl wait --for=delete namespace/doomed --timeout=60s")?;
    shell.refuses("kubectl get namespace doomed", &["NotFound"])?;
    Ok(())
}
