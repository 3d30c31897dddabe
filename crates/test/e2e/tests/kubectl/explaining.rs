//! `explain`, `describe`, `api-resources`, and what a client asks a server about itself.

use anyhow::ensure;

use crate::shell::Shell;

pub(crate) fn api_resources(shell: &Shell) -> anyhow::Result<()> {
    let all =
        shell.says("kubectl api-resources", &["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"])?;
    let rows = all.rows();
    for expected in [
        vec!["configmaps", "cm", "v1", "true", "ConfigMap"],
        vec!["namespaces", "ns", "v1", "false", "Namespace"],
        vec!["deployments", "deploy", "apps/v1", "true", "Deployment"],
        vec!["policygates", "pg", "kardinal.io/v1alpha1", "true", "PolicyGate"],
        vec!["bundles", "bnd", "kardinal.io/v1alpha1", "true", "Bundle"],
    ] {
        ensure!(rows.contains(&expected), "{expected:?} is missing:\n{}", all.out);
    }
    let ours = "kubectl api-resources --api-group=kardinal.io -o name --sort-by=name";
    let names =
        "bundles.kardinal.io\npipelines.kardinal.io\npolicygates.kardinal.io\npromotionsteps.kardinal.io";
    shell.prints(ours, names)?;
    let wide = shell.ok("kubectl api-resources --api-group=kardinal.io -o wide")?;
    wide.with(&["VERBS", "CATEGORIES", "create", "deletecollection", "watch", "kardinal"])?;
    shell
        .says(
            "kubectl api-resources --namespaced=false -o name",
            &["customresourcedefinitions.apiextensions.k8s.io"],
        )?
        .without(&["configmaps"])?;
    shell
        .says("kubectl api-resources --categories=kardinal -o name", &["bundles.kardinal.io"])?
        .without(&["configmaps"])?;
    shell.says(
        "kubectl api-resources --verbs=watch,deletecollection -o name",
        &["configmaps", "graphs.experimental.kro.run"],
    )?;
    shell.says(
        "kubectl api-versions",
        &["apps/v1", "experimental.kro.run/v1alpha1", "kardinal.io/v1alpha1", "v1"],
    )?;
    Ok(())
}

pub(crate) fn explain(shell: &Shell) -> anyhow::Result<()> {
    let deployment = shell.ok("kubectl explain deployment --recursive")?;
    deployment.with(&["GROUP:      apps", "KIND:       Deployment", "VERSION:    v1"])?.with(&[
        "  replicas\t<integer>",
        "  selector\t<LabelSelector> -required-",
        "containers\t<[]Container> -required-",
        "matchLabels\t<map[string]string>",
    ])?;
    shell.says("kubectl explain pod.spec.containers.image", &["FIELD: image <string>", "DESCRIPTION:"])?;
    shell.says("kubectl explain configmaps.data", &["FIELD: data <map[string]string>"])?;
    shell.says("kubectl explain deploy.spec --api-version=apps/v1", &["FIELD: spec <DeploymentSpec>"])?;
    let gate = shell.ok("kubectl explain policygate --recursive")?;
    gate.with(&["GROUP:      kardinal.io", "KIND:       PolicyGate", "VERSION:    v1alpha1"])?.with(&[
        "A PolicyGate holds promotions until its CEL expression is true.",
        "expression\t<string> -required-",
        "appliesTo\t<[]string>",
        "apiVersion\t<string>",
        "metadata\t<ObjectMeta>",
    ])?;
    shell.says(
        "kubectl explain pg.spec.when",
        &["FIELD: when <string>", "ENUM:", "pre-deploy", "post-deploy"],
    )?;
    shell.says(
        "kubectl explain pipelines.spec.environments",
        &["FIELD: environments <[]Object>", "enum: auto, pr-review", "name\t<string> -required-"],
    )?;
    shell.says(
        "kubectl explain graph --recursive",
        &["GROUP:      experimental.kro.run", "nodes\t<[]Object>", "propagateWhen\t<[]string>"],
    )?;
    shell.says("kubectl explain bundle.metadata.labels", &["FIELD: labels <map[string]string>"])?;
    shell.refuses("kubectl explain deployment.spec.nothing", &["field \"nothing\" does not exist"])?;
    shell.refuses("kubectl explain gizmo", &["the server doesn't have a resource type \"gizmo\""])?;
    shell.says("kubectl explain pg.spec --output=plaintext-openapiv2", &["expression", "<string>"])?;
    Ok(())
}

pub(crate) fn describe(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    shell.says(
        "kubectl describe configmap settings",
        &["Name:         settings", "Labels:       app=web", "colour:", "blue"],
    )?;
    let deployment = shell.ok("kubectl describe deployment web")?;
    deployment.with(&["Replicas:", "2 desired", "registry.example/web:1", "RollingUpdate", "COLOUR:"])?;
    shell.says("kubectl describe service web", &["Type:", "ClusterIP", "80/TCP", "8080/TCP"])?;
    shell.says("kubectl describe namespace $NS", &["Status:", "Active"])?;
    shell
        .feed(
            "kubectl create -f -",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {token: hush}\n",
        )?
        .succeeded()?;
    shell.says("kubectl describe secret token", &["token:  4 bytes"])?.without(&["hush"])?;
    shell.ok("kubectl run box --image=registry.example/box:1")?;
    shell.says("kubectl describe pod box", &["Status:", "Pending", "registry.example/box:1"])?;
    let gate = shell.ok("kubectl describe pg no-weekend")?;
    gate.with(&[
        "API Version:  kardinal.io/v1alpha1",
        "Kind:         PolicyGate",
        "Expression:",
        "!schedule.isWeekend",
        "Events:",
    ])?;
    shell
        .says("kubectl describe bundles -l app=shop", &["Name:         shop-1", "registry.example/shop:1"])?;
    shell.says("kubectl describe graph/values", &["Kind:         Graph", "Nodes:"])?;
    shell.says(
        "kubectl describe crd policygates.kardinal.io",
        &["Name:         policygates.kardinal.io", "Established"],
    )?;
    shell.refuses("kubectl describe configmap nobody", &["NotFound"])?;
    Ok(())
}

pub(crate) fn questions_to_the_server(shell: &Shell) -> anyhow::Result<()> {
    shell.prints("kubectl auth can-i create deployments", "yes")?;
    shell.prints("kubectl auth can-i delete pg --all-namespaces", "yes")?;
    shell.says("kubectl auth can-i --list", &["Resources", "*.*"])?;
    shell.says("kubectl auth whoami", &["ATTRIBUTE", "Username", "Groups", "system:masters"])?;
    shell
        .says("kubectl cluster-info", &["Kubernetes control plane", "is running at", "https://127.0.0.1:"])?;
    let version = "kubectl version -o json";
    shell.says(version, &["serverVersion", "\"major\": \"1\"", "gitVersion", "platform"])?;
    shell.prints("kubectl get --raw /readyz", "ok")?;
    shell.prints("kubectl get --raw /healthz", "ok")?;
    shell.prints("kubectl get --raw /livez", "ok")?;
    shell.says("kubectl get --raw /readyz?verbose", &["check passed"])?;
    shell.says("kubectl get --raw /api", &["\"kind\":\"APIVersions\""])?;
    shell.says("kubectl get --raw /apis", &["\"kind\":\"APIGroupList\"", "kardinal.io"])?;
    shell.says(
        "kubectl get --raw /apis/kardinal.io/v1alpha1",
        &["\"kind\":\"APIResourceList\"", "policygates/status"],
    )?;
    shell.says("kubectl get --raw /openapi/v3", &["apis/kardinal.io/v1alpha1"])?;
    shell.says(
        "kubectl get --raw /openapi/v3/apis/kardinal.io/v1alpha1",
        &["x-kubernetes-group-version-kind", "PolicyGate"],
    )?;
    shell.says("kubectl get --raw /openapi/v2", &["swagger", "io.k8s.api.apps.v1.Deployment"])?;
    shell.says("kubectl get namespaces -o name", &["namespace/default", "namespace/kube-system"])?;
    Ok(())
}
