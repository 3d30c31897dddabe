//! `create`, `run`, `scale`, `replace` and dry runs.

use crate::shell::Shell;

pub(crate) fn creating_things(shell: &Shell) -> anyhow::Result<()> {
    shell.says(
        "kubectl create configmap flags --from-literal=a=1 --from-literal=b=2",
        &["configmap/flags created"],
    )?;
    shell.prints("kubectl get configmap flags -o jsonpath='{.data}'", r#"{"a":"1","b":"2"}"#)?;
    shell.refuses("kubectl create configmap flags", &["configmaps \"flags\" already exists"])?;
    shell.ok("kubectl create configmap from-file --from-file=app.yaml")?;
    shell.says("kubectl get configmap from-file -o jsonpath='{.data.app\\.yaml}'", &["kind: Deployment"])?;
    shell.says("kubectl create secret generic token --from-literal=token=hush", &["secret/token created"])?;
    shell.prints("kubectl get secret token -o jsonpath='{.data.token}' | base64 -d", "hush")?;
    shell.prints("kubectl get secret token -o jsonpath='{.type}'", "Opaque")?;
    shell.says(
        "kubectl create deployment web --image=registry.example/web:1 --replicas=2",
        &["deployment.apps/web created"],
    )?;
    shell.prints(
        "kubectl get deployment web -o jsonpath='{.spec.replicas} {.spec.strategy.type}'",
        "2 RollingUpdate",
    )?;
    shell.ok("kubectl set image deployment/web web=registry.example/web:2")?.with(&["image updated"])?;
    shell.ok("kubectl create serviceaccount robot")?;
    shell.ok("kubectl create role reader --verb=get,list --resource=configmaps")?;
    shell.ok("kubectl create rolebinding readers --role=reader --serviceaccount=$NS:robot")?;
    shell.ok("kubectl create job once --image=registry.example/job:1")?;
    shell.ok("kubectl create cronjob nightly --image=registry.example/job:1 --schedule='0 3 * * *'")?;
    shell.ok("kubectl create ingress web --rule='shop.example/=web:80'")?;
    shell.ok("kubectl create service clusterip web --tcp=80:8080")?;
    shell.prints("kubectl get service web -o jsonpath='{.spec.ports[0].targetPort}'", "8080")?;
    shell
        .ok("kubectl run box --image=registry.example/box:1 --labels=app=box")?
        .with(&["pod/box created"])?;
    shell.prints("kubectl get pod box -o jsonpath='{.status.phase}'", "Pending")?;
    let named = "printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {generateName: made-}\\n' | kubectl create -f - -o name";
    let named = shell.ok(named)?;
    anyhow::ensure!(
        named.out.trim().len() == "configmap/made-".len() + 5,
        "not a generated name: {}",
        named.out
    );
    shell.says("kubectl get namespace $NS -o jsonpath='{.status.phase}'", &["Active"])?;
    Ok(())
}

pub(crate) fn scaling(shell: &Shell) -> anyhow::Result<()> {
    let replicas = "kubectl get deployment web -o jsonpath='{.spec.replicas}'";
    shell.ok("kubectl apply -f app.yaml")?;
    shell.says("kubectl scale deployment/web --replicas=5", &["deployment.apps/web scaled"])?;
    shell.prints(replicas, "5")?;
    shell.refuses(
        "kubectl scale deployment/web --current-replicas=2 --replicas=7",
        &["Expected replicas to be 2, was 5"],
    )?;
    shell.prints(replicas, "5")?;
    shell.says("kubectl scale --current-replicas=5 --replicas=1 deployment web", &["scaled"])?;
    shell.prints(replicas, "1")?;
    let read = "kubectl get deployment web --subresource=scale -o jsonpath='{.kind} {.spec.replicas}'";
    shell.prints(read, "Scale 1")
}

pub(crate) fn dry_runs(shell: &Shell) -> anyhow::Result<()> {
    shell.says(
        "kubectl apply --dry-run=server -f app.yaml",
        &["deployment.apps/web created (server dry run)"],
    )?;
    shell.refuses("kubectl get deployment web", &["NotFound"])?;
    // A dry run answers what would be stored, defaults included.
    let would = "kubectl create deployment ghost --image=x --dry-run=server -o jsonpath='{.spec.strategy.type} {.metadata.uid}'";
    shell.says(would, &["RollingUpdate ", "-"])?;
    shell
        .says("kubectl create deployment ghost --image=x --dry-run=client -o yaml", &["kind: Deployment"])?;
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    let version =
        "kubectl get -f app.yaml -f delivery.yaml -o jsonpath='{.items[*].metadata.resourceVersion}'";
    let before = shell.ok(version)?.out;
    shell.says(
        "kubectl apply --dry-run=server -f app-next.yaml",
        &["configmap/settings configured (server dry run)"],
    )?;
    shell.ok("kubectl apply --server-side --force-conflicts --dry-run=server -f app-next.yaml")?;
    shell.ok("kubectl label configmap settings x=y --dry-run=server")?;
    shell.ok(
        "kubectl patch pg no-weekend --type merge -p '{\"spec\":{\"message\":\"x\"}}' --dry-run=server",
    )?;
    shell.ok("kubectl scale deployment web --replicas=9 --dry-run=server")?;
    shell.says(
        "kubectl delete -f app.yaml --dry-run=server",
        &["deployment.apps \"web\" deleted (server dry run)"],
    )?;
    shell.prints(version, &before)?;
    // A dry run refuses what a real one refuses.
    let wrong =
        "kubectl patch pg no-weekend --type merge -p '{\"spec\":{\"expression\":1}}' --dry-run=server";
    shell.refuses(wrong, &["spec.expression", "must be of type string"])?;
    Ok(())
}

pub(crate) fn replacing(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    let read = shell.ok("kubectl get configmap settings -o json")?.out;
    let path = shell.write("settings.json", &read)?;
    let change = format!("sed -i 's/\"colour\": \"blue\"/\"colour\": \"red\"/' {path}");
    shell.ok(&change)?;
    shell.says(&format!("kubectl replace -f {path}"), &["configmap/settings replaced"])?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data.colour}'", "red")?;
    // The file still has the old version: somebody else's change is not overwritten.
    shell.ok(&format!("sed -i 's/\"colour\": \"red\"/\"colour\": \"pink\"/' {path}"))?;
    let stale = [
        "Conflict",
        "the object has been modified; please apply your changes to the latest version and try again",
    ];
    shell.refuses(&format!("kubectl replace -f {path}"), &stale)?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data.colour}'", "red")?;
    let uid = "kubectl get configmap settings -o jsonpath='{.metadata.uid}'";
    let before = shell.ok(uid)?.out;
    shell.ok(&format!("kubectl replace --force -f {path}"))?;
    shell.prints("kubectl get configmap settings -o jsonpath='{.data.colour}'", "pink")?;
    anyhow::ensure!(shell.ok(uid)?.out != before, "a forced replacement is a new object");
    // Replacing keeps the status and what the server set.
    shell.ok(
        "kubectl patch pg no-weekend --subresource=status --type merge -p '{\"status\":{\"ready\":true}}'",
    )?;
    shell.ok("kubectl get pg no-weekend -o json | sed 's/not on a weekend/never/; s/\"ready\": true/\"ready\": false/' | kubectl replace -f -")?;
    shell.prints("kubectl get pg no-weekend -o jsonpath='{.spec.message} {.status.ready}'", "never true")?;
    let immutable = "kubectl get bundle shop-1 -o json | sed 's/shop:1/shop:2/' | kubectl replace -f -";
    shell.refuses(immutable, &["a Bundle is immutable"])?;
    shell.refuses(
        "printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: nobody}\\n' | kubectl replace -f -",
        &["NotFound"],
    )?;
    Ok(())
}
