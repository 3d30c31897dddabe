//! A kubeconfig that lies in the folder where somebody happens to stand.
//!
//! Nobody named it, and the folder may be a stranger's: a repository that was cloned, a shared directory. A kubeconfig can
//! run commands and send files elsewhere. So it is used only if it is what `kardinal up` of this very user writes.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context as _;
use kube::config::{AuthInfo, Cluster, Kubeconfig};

use crate::failure::{Failure, Kind};

/// More than any kubeconfig of `kardinal up` has.
const MAX_BYTES: u64 = 64 * 1024;
/// The permissions that let others in.
const OTHERS: u32 = 0o077;

/// What is known of the file besides its text.
struct Belongings {
    is_link: bool,
    owner: u32,
    mode: u32,
}

/// Reads the file, or says why it is not trusted and how to use it on purpose.
pub(super) fn trusted(path: &Path) -> anyhow::Result<Kubeconfig> {
    let shown = path.display();
    let unread = || format!("the kubeconfig `{shown}` cannot be read");
    let is_link = path.symlink_metadata().with_context(unread)?.is_symlink();
    let file = File::open(path).with_context(unread)?;
    let metadata = file.metadata().with_context(unread)?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).with_context(unread)?;
    let belongings = Belongings { is_link, owner: metadata.uid(), mode: metadata.mode() };
    let checked = check(&belongings, caller()?, &text);
    checked.map_err(|reason| {
        Failure::new(Kind::Refused, format!("`{shown}` lies in this folder and is not trusted: {reason}"))
            .hint(format!("if you want to use it, name it: `--kubeconfig {shown}`"))
            .into()
    })
}

/// Whoever runs this program. A socket of its own tells, as the kernel knows it.
pub(crate) fn caller() -> anyhow::Result<u32> {
    let (one, _other) = tokio::net::UnixStream::pair().context("the user of this program is not known")?;
    Ok(one.peer_cred().context("the user of this program is not known")?.uid())
}

/// The kubeconfig in the text, or why it is not trusted.
fn check(file: &Belongings, caller: u32, text: &str) -> Result<Kubeconfig, String> {
    if file.is_link {
        return Err("it is a link".to_owned());
    }
    if file.owner != caller {
        return Err(format!("it belongs to the user {}, not to you ({caller})", file.owner));
    }
    if file.mode & OTHERS != 0 {
        let mode = file.mode & 0o777;
        return Err(format!("others may read or write it (its mode is {mode:04o}, not 0600)"));
    }
    let config = Kubeconfig::from_yaml(text).map_err(|error| format!("it cannot be read: {error}"))?;
    for cluster in config.clusters.iter().filter_map(|named| named.cluster.as_ref()) {
        check_cluster(cluster)?;
    }
    for user in config.auth_infos.iter().filter_map(|named| named.auth_info.as_ref()) {
        check_user(user)?;
    }
    Ok(config)
}

fn check_cluster(cluster: &Cluster) -> Result<(), String> {
    let server = cluster.server.as_deref().unwrap_or_default();
    if !is_loopback(server) {
        return Err(format!("its server `{server}` is not on this machine"));
    }
    refuse(&[
        ("proxy-url", cluster.proxy_url.is_some()),
        ("certificate-authority", cluster.certificate_authority.is_some()),
    ])
}

fn check_user(user: &AuthInfo) -> Result<(), String> {
    refuse(&[
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
    ])
}

/// Refuses what runs commands, or reads other files of this machine and sends them.
fn refuse(fields: &[(&str, bool)]) -> Result<(), String> {
    match fields.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(format!("it uses `{name}`")),
        None => Ok(()),
    }
}

fn is_loopback(server: &str) -> bool {
    let Ok(uri) = server.parse::<http::Uri>() else { return false };
    let Some(host) = uri.host() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Belongings = Belongings { is_link: false, owner: 7, mode: 0o100_600 };

    fn text(server: &str, cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: k\n  cluster: {{server: '{server}'{cluster}}}\n\
             users:\n- name: u\n  user: {{{user}}}\ncontexts:\n- name: k\n  context: {{cluster: k, user: u}}\ncurrent-context: k\n"
        )
    }

    #[test]
    fn the_kubeconfig_of_ones_own_kardinal_up_is_used() {
        for server in
            ["https://127.0.0.1:6440", "https://[::1]:6440", "https://localhost:6440", "https://127.9.9.9:1"]
        {
            assert!(check(&OWN, 7, &text(server, "", "token: t")).is_ok(), "{server}");
        }
    }

    #[test]
    fn the_command_line_trusts_no_folder() {
        let good = text("https://127.0.0.1:6440", "", "token: t");
        for (file, reason) in [
            (Belongings { is_link: true, ..OWN }, "it is a link"),
            (Belongings { owner: 8, ..OWN }, "belongs to the user 8"),
            (Belongings { mode: 0o100_640, ..OWN }, "mode is 0640"),
            (Belongings { mode: 0o100_602, ..OWN }, "mode is 0602"),
        ] {
            let refused = check(&file, 7, &good).expect_err(reason);
            assert!(refused.contains(reason), "{refused}");
        }
        let loopback = "https://127.0.0.1:6440";
        for (server, cluster, user, reason) in [
            ("https://203.0.113.9:6443", "", "token: t", "not on this machine"),
            ("https://127.0.0.1.example.com", "", "token: t", "not on this machine"),
            ("https://127.0.0.1@example.com", "", "token: t", "not on this machine"),
            ("", "", "token: t", "not on this machine"),
            (loopback, ", proxy-url: 'http://203.0.113.9'", "token: t", "`proxy-url`"),
            (loopback, ", certificate-authority: /etc/passwd", "token: t", "`certificate-authority`"),
            (loopback, "", "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}", "`exec`"),
            (loopback, "", "auth-provider: {name: gcp, config: {}}", "`auth-provider`"),
            (loopback, "", "tokenFile: /etc/passwd", "`tokenFile`"),
            (loopback, "", "client-key: /etc/passwd", "`client-key`"),
        ] {
            let refused = check(&OWN, 7, &text(server, cluster, user)).expect_err(reason);
            assert!(refused.contains(reason), "{refused}");
        }
        assert!(check(&OWN, 7, "{").is_err());
    }
}
