//! Kubeconfigs from Secrets are data.

use crate::health::{Login, RemoteCluster, remote_cluster};

fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: eu\n\
         contexts: [{{name: eu, context: {{cluster: c, user: u, namespace: default}}}}]\n\
         clusters: [{{name: other, cluster: {{server: 'http://nowhere'}}}}, {{name: c, cluster: {cluster}}}]\n\
         users: [{{name: u, user: {user}}}, {{name: other, user: {{exec: {{command: x}}}}}}]\n"
    )
}

const CLUSTER: &str = "{server: 'https://10.0.0.1:6443', certificate-authority-data: Q0E=}";
const USER: &str = "{token: t0ken}";

fn refusal(text: &str) -> String {
    remote_cluster(text).err().unwrap_or_else(|| panic!("accepted:\n{text}"))
}

#[test]
fn a_server_its_certificate_and_an_inline_login_are_taken() {
    let plain = RemoteCluster {
        server: "https://10.0.0.1:6443".to_owned(),
        certificate_authority: Some("Q0E=".to_owned()),
        tls_server_name: None,
        login: Login::Token("t0ken".to_owned()),
    };
    assert!(remote_cluster(&config(CLUSTER, USER)) == Ok(plain.clone()));
    let text = plain.kubeconfig().to_string();
    assert!(remote_cluster(&text) == Ok(plain), "JSON is YAML, and what we write can be read");
    let named = "{server: 'https://eu', tls-server-name: eu.example, insecure-skip-tls-verify: false}";
    let with_key = "{client-certificate-data: QQ==, client-key-data: Qg==}";
    let found = remote_cluster(&config(named, with_key)).ok().unwrap();
    assert_eq!(found.tls_server_name.as_deref(), Some("eu.example"));
    assert!(remote_cluster(&found.kubeconfig().to_string()) == Ok(found));
}

#[test]
fn kubeconfigs_from_secrets_are_data_and_everything_else_is_refused_by_name() {
    let users = [
        ("{exec: {command: touch, args: [/tmp/x]}, token: a}", "users[0].user.exec"),
        ("{auth-provider: {name: gcp, config: {cmd-path: /bin/sh}}}", "users[0].user.auth-provider"),
        ("{tokenFile: /var/run/secrets/token}", "users[0].user.tokenFile"),
        ("{token: a, tokenFile: /etc/passwd}", "users[0].user.tokenFile"),
        ("{client-certificate: /a, client-key-data: Qg==}", "users[0].user.client-certificate"),
        ("{client-certificate-data: QQ==, client-key: /a}", "users[0].user.client-key"),
        ("{username: a, password: b}", "users[0].user.password"),
        ("{token: a, as: admin}", "users[0].user.as"),
        ("{token: a, as-groups: ['system:masters']}", "users[0].user.as-groups"),
        ("{token: a, somethingNew: 1}", "users[0].user.somethingNew"),
        ("{}", "users[0].user"),
        ("{client-certificate-data: QQ==}", "client-key-data"),
    ];
    for (user, field) in users {
        let why = refusal(&config(CLUSTER, user));
        assert!(why.contains(&format!("{field}`")) || why.contains(field), "{user}: {why}");
    }
    let clusters = [
        (
            "{server: 'https://a', certificate-authority: /etc/passwd}",
            "clusters[1].cluster.certificate-authority",
        ),
        (
            "{server: 'https://a', insecure-skip-tls-verify: true}",
            "clusters[1].cluster.insecure-skip-tls-verify",
        ),
        ("{server: 'https://a', proxy-url: 'http://b'}", "clusters[1].cluster.proxy-url"),
        ("{server: 'http://a'}", "clusters[1].cluster.server"),
        ("{server: 'https://user@a'}", "clusters[1].cluster.server"),
        ("{server: 'https:///a'}", "clusters[1].cluster.server"),
        ("{server: 'unix:///run/x'}", "clusters[1].cluster.server"),
        ("{}", "clusters[1].cluster.server"),
    ];
    for (cluster, field) in clusters {
        let why = refusal(&config(cluster, USER));
        assert!(why.contains(field), "{cluster}: {why}");
    }
}

#[test]
fn which_context_counts_is_never_guessed() {
    let one = "clusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: [{name: b, user: {token: c}}]\n";
    assert!(remote_cluster(one).is_ok(), "there is no choice");
    let two = format!("{one}contexts: [{{name: x, context: {{}}}}, {{name: y, context: {{}}}}]\n");
    assert!(refusal(&two).contains("current-context"));
    assert!(refusal(&format!("{one}current-context: gone\n")).contains("contexts"));
}

#[test]
fn a_refusal_never_repeats_what_a_secret_holds() {
    for text in ["s3cret: [", "users: [{name: u, user: {token: [s3cret]}}]", "s3cret"] {
        assert!(!refusal(text).contains("s3cret"));
    }
    assert!(refusal(&"a".repeat(300_000)).contains("256 KiB"));
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    refusal(bomb);
}
