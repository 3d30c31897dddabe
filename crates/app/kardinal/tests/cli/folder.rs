//! A folder with a kubeconfig that somebody else put there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{check, kardinal};

fn put(dir: &Path, mode: u32, server: &str, user: &str) {
    let folder = dir.join(".kardinal");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: k\n  cluster: {{server: '{server}'}}\nusers:\n- name: u\n  user: {{{user}}}\n\
         contexts:\n- name: k\n  context: {{cluster: k, user: u}}\ncurrent-context: k\n"
    );
    std::fs::write(&file, text).expect("a kubeconfig");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

#[test]
fn a_kubeconfig_in_a_strangers_folder_runs_nothing_and_sends_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let hint = "name it: `--kubeconfig .kardinal/kubeconfig`";
    put(
        dir,
        0o600,
        "https://127.0.0.1:1",
        "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: [pwned]}",
    );
    for (command, code) in [(&["get", "pipelines"] as &[&str], 4), (&["version"], 4), (&["doctor"], 1)] {
        check(dir, command, code, &["is not trusted: it uses `exec`", hint]);
    }
    assert!(!dir.join("pwned").exists(), "nothing was run");
    put(dir, 0o644, "https://127.0.0.1:1", "token: t");
    check(dir, &["get", "pipelines"], 4, &["its mode is 0644", hint]);
    put(dir, 0o600, "https://203.0.113.9:1", "token: t");
    check(dir, &["get", "pipelines"], 4, &["is not on this machine", hint]);
    // Named on purpose it is used, and so is one's own.
    put(dir, 0o600, "https://127.0.0.1:1", "token: t");
    check(dir, &["get", "pipelines"], 5, &[]);
    put(dir, 0o644, "https://127.0.0.1:1", "token: t");
    check(dir, &["--kubeconfig", ".kardinal/kubeconfig", "get", "pipelines"], 5, &[]);
    let named = kardinal(dir, &["get", "pipelines", "--kubeconfig", ".kardinal/kubeconfig"]);
    assert_eq!(named.status.code(), Some(5));
}
