//! `get` in all its forms, and events.

use anyhow::ensure;

use crate::shell::Shell;

pub(crate) fn output_formats(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml")?;
    let table = shell.ok("kubectl get deployments")?;
    let rows = table.rows();
    ensure!(rows.first() == Some(&vec!["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]), "{rows:?}");
    ensure!(rows.get(1).is_some_and(|row| row.starts_with(&["web", "0/2", "0", "0"])), "{rows:?}");
    let wide = shell.says("kubectl get deployments -o wide", &["CONTAINERS", "IMAGES", "SELECTOR"])?;
    wide.with(&["registry.example/web:1", "app=web"])?;
    let table = shell.ok("kubectl get configmaps,services")?;
    table.with(&["configmap/settings", "service/web", "DATA", "CLUSTER-IP", "80/TCP"])?;
    let yaml = shell.ok("kubectl get configmap settings -o yaml")?;
    yaml.with(&["apiVersion: v1", "kind: ConfigMap", "  colour: blue", "  uid: "])?
        .without(&["managedFields"])?;
    shell.says(
        "kubectl get configmap settings -o yaml --show-managed-fields",
        &["managedFields:", "f:colour: {}"],
    )?;
    shell.says("kubectl get configmaps -o json", &["\"kind\": \"List\"", "\"colour\": \"blue\""])?;
    shell.prints("kubectl get configmap,deployment -o name", "configmap/settings\ndeployment.apps/web")?;
    let path = "kubectl get deployment web -o jsonpath='{.metadata.name}:{.spec.template.spec.containers[?(@.name==\"web\")].image}'";
    shell.prints(path, "web:registry.example/web:1")?;
    let columns = "kubectl get deployments -o custom-columns=NAME:.metadata.name,IMAGE:.spec.template.spec.containers[*].image,GONE:.spec.nothing";
    let columns = shell.ok(columns)?;
    ensure!(
        columns.rows() == [["NAME", "IMAGE", "GONE"], ["web", "registry.example/web:1", "<none>"]],
        "{}",
        columns.out
    );
    shell
        .prints("kubectl get configmaps -o go-template='{{range .items}}{{.data.colour}}{{end}}'", "blue")?;
    shell.says("kubectl get configmaps --show-labels", &["LABELS", "app=web,tier=front"])?;
    shell.says("kubectl get configmaps -L tier", &["TIER", "front"])?;
    shell.prints("kubectl get deployment web --no-headers -o custom-columns=A:.kind", "Deployment")?;
    for (name, rank) in [("b", "1"), ("a", "2")] {
        shell.make_map(name)?;
        shell.ok(&format!(
            "kubectl patch configmap {name} --type merge -p '{{\"data\":{{\"rank\":\"{rank}\"}}}}'"
        ))?;
    }
    let sorted = "kubectl get configmaps --sort-by=.data.rank -o jsonpath='{.items[*].metadata.name}'";
    shell.says(sorted, &["b a"])?;
    // Pages are put together again.
    let paged = "kubectl get configmaps --chunk-size=1 -o name";
    shell.prints(paged, "configmap/a\nconfigmap/b\nconfigmap/settings")?;
    let everywhere = shell.ok("kubectl get configmaps -A")?;
    ensure!(
        everywhere.rows().first().and_then(|row| row.first()) == Some(&"NAMESPACE"),
        "{}",
        everywhere.out
    );
    everywhere.with(&[&shell.namespace])?;
    shell.says("kubectl get all", &["deployment.apps/web", "service/web"])?;
    let empty = shell.ok("kubectl get secrets")?;
    ensure!(
        empty.err.contains(&format!("No resources found in {} namespace.", shell.namespace)),
        "{}",
        empty.err
    );
    let pod = "kubectl run box --image=registry.example/box:1 && kubectl get pods";
    let pod = shell.ok(pod)?.with(&["NAME", "READY", "STATUS", "RESTARTS"])?;
    ensure!(
        pod.rows().last().is_some_and(|row| row.starts_with(&["box", "0/1", "Pending", "0"])),
        "{}",
        pod.out
    );
    Ok(())
}

pub(crate) fn selectors(shell: &Shell) -> anyhow::Result<()> {
    let make = "kubectl label configmap a tier=front app=x \
        && kubectl label configmap b tier=back app=x && kubectl label configmap c tier=back app=y";
    for name in ["a", "b", "c", "d"] {
        shell.make_map(name)?;
    }
    shell.ok(make)?;
    let check = |selector: &str, names: &str| {
        let line =
            format!("kubectl get configmaps -l '{selector}' -o jsonpath='{{.items[*].metadata.name}}'");
        shell.prints(&line, names)
    };
    check("tier=back", "b c")?;
    check("tier==front", "a")?;
    check("tier!=back", "a d")?;
    check("tier in (front, back),app=x", "a b")?;
    check("tier notin (front)", "b c d")?;
    check("tier", "a b c")?;
    check("!tier", "d")?;
    check("tier,app notin (x)", "c")?;
    let fields = |selector: &str, names: &str| {
        let line = format!(
            "kubectl get configmaps --field-selector '{selector}' -o jsonpath='{{.items[*].metadata.name}}'"
        );
        shell.prints(&line, names)
    };
    fields("metadata.name=b", "b")?;
    fields("metadata.name!=b", "a c d")?;
    fields(&format!("metadata.namespace={},metadata.name!=a", shell.namespace), "b c d")?;
    shell.prints(
        "kubectl get configmaps -l tier=back --field-selector metadata.name!=b -o name",
        "configmap/c",
    )?;
    shell.ok("kubectl run box --image=registry.example/box:1")?;
    shell.prints("kubectl get pods --field-selector status.phase=Pending -o name", "pod/box")?;
    shell.prints("kubectl get pods --field-selector status.phase=Running -o name", "")?;
    shell.says(
        "kubectl get namespaces --field-selector status.phase=Active -o name",
        &["namespace/default"],
    )?;
    shell
        .feed(
            "kubectl create -f -",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n",
        )?
        .succeeded()?;
    shell.prints("kubectl get secret s -o jsonpath='{.data.a}'", "Yg==")?;
    shell.prints("kubectl get secrets --field-selector type=Opaque -o name", "secret/s")?;
    shell.ok("kubectl apply -f delivery.yaml")?;
    shell.prints("kubectl get pg -l 'app in (shop)' -o name", "policygate.kardinal.io/no-weekend")?;
    shell.prints("kubectl get pg -l app!=shop -o name", "")?;
    shell.prints(
        "kubectl get bundles --field-selector metadata.name=shop-1 -o name",
        "bundle.kardinal.io/shop-1",
    )
}

pub(crate) fn watching(shell: &Shell) -> anyhow::Result<()> {
    shell.make_map("first")?;
    shell.ok("kubectl label configmap first watched=yes")?;
    let watch = shell.follow("kubectl get configmaps -l watched=yes -w --output-watch-events -o custom-columns=T:.type,N:.object.metadata.name,C:.object.data.colour")?;
    watch.until(&["ADDED", "first"])?;
    shell.make_map("second")?;
    shell.ok("kubectl label configmap second watched=yes")?;
    watch.until(&["ADDED", "second"])?;
    shell.ok("kubectl patch configmap second --type merge -p '{\"data\":{\"colour\":\"red\"}}'")?;
    watch.until(&["MODIFIED", "second", "red"])?;
    // An object that stops matching leaves the watch.
    shell.ok("kubectl label configmap second watched-")?;
    watch.until(&["DELETED", "second"])?;
    shell.ok("kubectl delete configmap first")?;
    watch.until(&["DELETED", "first"])?;

    let gates = shell.follow("kubectl get pg -w")?;
    shell.ok("kubectl apply -f delivery.yaml")?;
    gates.until(&["no-weekend"])?;
    shell.ok("kubectl patch pg no-weekend --subresource=status --type merge -p '{\"status\":{\"ready\":true,\"reason\":\"tuesday\"}}'")?;
    gates.until(&["no-weekend", "true", "tuesday"])?;
    let one =
        shell.follow("kubectl get bundle shop-1 --watch-only -o jsonpath='{.status.phase}{\"\\n\"}'")?;
    // A watch that only sees changes may start late, so the change is repeated with other words.
    let phases = ["Promoting", "Verified"];
    for phase in phases.iter().cycle().take(6) {
        let patch = format!(r#"{{"status":{{"phase":"{phase}"}}}}"#);
        shell.ok(&format!("kubectl patch bundle shop-1 --subresource=status --type merge -p '{patch}'"))?;
    }
    one.until(&["Verified"])?;
    Ok(())
}

pub(crate) fn tables_of_our_kinds(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f delivery.yaml")?;
    let heads = |line: &str, expected: &[&str]| {
        let answer = shell.ok(line)?;
        ensure!(answer.rows().first().is_some_and(|row| row == expected), "{line} printed\n{}", answer.out);
        Ok(answer)
    };
    heads("kubectl get bundles", &["NAME", "TYPE", "PIPELINE", "PHASE", "AGE"])?
        .with(&["shop-1", "image", "shop"])?;
    let wide = ["NAME", "TYPE", "PIPELINE", "PHASE", "TARGET", "GRAPH", "AGE"];
    heads("kubectl get bundles -o wide", &wide)?;
    heads("kubectl get pg", &["NAME", "READY", "REASON", "LAST-EVALUATED", "AGE"])?;
    heads("kubectl get pg -o wide", &["NAME", "READY", "REASON", "LAST-EVALUATED", "EXPRESSION", "AGE"])?
        .with(&["!schedule.isWeekend"])?;
    heads("kubectl get pipelines -o wide", &["NAME", "PHASE", "PAUSED", "REPOSITORY", "AGE"])?
        .with(&["https://git.example/shop"])?;
    shell.says("kubectl get graphs", &["NAME", "values"])?;
    // Categories and several kinds at once.
    let ours = shell.ok("kubectl get kardinal")?;
    ours.with(&[
        "pipeline.kardinal.io/shop",
        "bundle.kardinal.io/shop-1",
        "policygate.kardinal.io/no-weekend",
    ])?;
    shell.says("kubectl get crd", &["NAME", "CREATED AT", "bundles.kardinal.io"])?;
    Ok(())
}

pub(crate) fn events(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f delivery.yaml")?;
    shell.make_map("quiet")?;
    let uid = shell.ok("kubectl get pg no-weekend -o jsonpath='{.metadata.uid}'")?.out;
    let namespace = &shell.namespace;
    let event = format!(
        "apiVersion: v1
kind: Event
metadata: {{generateName: no-weekend., namespace: {namespace}}}
involvedObject: {{apiVersion: kardinal.io/v1alpha1, kind: PolicyGate, name: no-weekend, namespace: {namespace}, uid: {uid}}}
type: Warning
reason: GateClosed
message: it is a weekend
source: {{component: kubectl-test}}
count: 1
firstTimestamp: \"2026-04-09T10:00:00Z\"
lastTimestamp: \"2026-04-09T10:00:00Z\"
"
    );
    shell.feed("kubectl create -f -", &event)?.succeeded()?;
    let table = shell.says("kubectl get events", &["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"])?;
    table.with(&["Warning", "GateClosed", "policygate/no-weekend", "it is a weekend"])?;
    shell.says("kubectl events", &["GateClosed", "PolicyGate/no-weekend", "it is a weekend"])?;
    shell.says("kubectl events --for policygate/no-weekend --types=Warning", &["GateClosed"])?;
    shell.ok("kubectl events --for configmap/quiet")?.without(&["GateClosed"])?;
    let select = |selector: &str| {
        format!("kubectl get events --field-selector {selector} -o jsonpath='{{.items[*].reason}}'")
    };
    shell.prints(&select("involvedObject.name=no-weekend,type=Warning"), "GateClosed")?;
    shell.prints(&select("involvedObject.kind=ConfigMap"), "")?;
    shell.prints(&select("reason!=GateClosed"), "")?;
    shell.says("kubectl describe pg no-weekend", &["Events:", "GateClosed", "it is a weekend"])?;
    Ok(())
}
