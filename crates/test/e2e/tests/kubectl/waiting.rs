//! `wait`, for a condition, a value and an end.

use crate::shell::Shell;

const READY: &str = r#"{"status":{"conditions":[{"type":"Ready","status":"STATUS","reason":"Asked","message":"m","lastTransitionTime":"2026-04-09T10:00:00Z"}]}}"#;

pub(crate) fn wait_for_a_condition(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f delivery.yaml -f app.yaml")?;
    let timed_out = ["timed out waiting for the condition on policygates/no-weekend"];
    shell.refuses("kubectl wait pg/no-weekend --for=condition=Ready --timeout=1s", &timed_out)?;
    let waiting = shell.follow("kubectl wait pg/no-weekend --for=condition=Ready --timeout=60s")?;
    let set = |status: &str| {
        let patch = READY.replace("STATUS", status);
        shell.ok(&format!("kubectl patch pg no-weekend --subresource=status --type merge -p '{patch}'"))
    };
    set("False")?;
    shell.ok("kubectl wait pg/no-weekend --for=condition=Ready=false --timeout=60s")?;
    set("True")?;
    waiting.until(&["policygate.kardinal.io/no-weekend condition met"])?;
    anyhow::ensure!(waiting.ends()?, "waiting should end well");
    let available = r#"{"status":{"conditions":[{"type":"Available","status":"True"}]}}"#;
    let waiting = shell.follow("kubectl wait deployment --all --for=condition=Available --timeout=60s")?;
    shell.ok(&format!("kubectl patch deployment web --subresource=status --type merge -p '{available}'"))?;
    waiting.until(&["deployment.apps/web condition met"])?;
    shell.ok("kubectl wait crd/policygates.kardinal.io --for=condition=Established --timeout=10s")?;
    Ok(())
}

pub(crate) fn wait_for_a_value(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    shell.ok("kubectl wait configmap/settings --for=jsonpath='{.data.colour}'=blue --timeout=10s")?;
    shell.refuses(
        "kubectl wait configmap/settings --for=jsonpath='{.data.colour}'=green --timeout=1s",
        &["timed out"],
    )?;
    let waiting = shell
        .follow("kubectl wait configmap/settings --for=jsonpath='{.data.colour}'=green --timeout=60s")?;
    shell.ok("kubectl apply -f app-next.yaml")?;
    waiting.until(&["configmap/settings condition met"])?;
    let waiting =
        shell.follow("kubectl wait bundle/shop-1 --for=jsonpath='{.status.phase}'=Verified --timeout=60s")?;
    let phase = r#"{"status":{"phase":"Verified"}}"#;
    shell.ok(&format!("kubectl patch bundle shop-1 --subresource=status --type merge -p '{phase}'"))?;
    waiting.until(&["bundle.kardinal.io/shop-1 condition met"])?;
    let waiting = shell.follow("kubectl wait configmap/later --for=create --timeout=60s")?;
    shell.make_map("later")?;
    waiting.until(&["configmap/later condition met"])?;
    Ok(())
}

pub(crate) fn wait_for_deletion(shell: &Shell) -> anyhow::Result<()> {
    shell.ok("kubectl apply -f app.yaml -f delivery.yaml")?;
    let waiting = shell.follow("kubectl wait configmap/settings pg/no-weekend --for=delete --timeout=60s")?;
    shell.ok("kubectl delete configmap settings")?;
    shell.ok("kubectl delete pg no-weekend")?;
    anyhow::ensure!(waiting.ends()?, "waiting should end well");
    // What is gone already needs no waiting.
    shell.ok("kubectl wait configmap/settings --for=delete --timeout=10s")?;
    shell.refuses("kubectl wait deployment/web --for=delete --timeout=1s", &["timed out"])?;
    Ok(())
}
