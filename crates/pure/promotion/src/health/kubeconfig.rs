//! A kubeconfig that somebody put into a Secret. It is data and not the operator's word: it may say where a cluster is
//! and who we are there, and nothing that runs a program, opens a file or sends us elsewhere.

use serde_json::{Map, Value, json};

/// Longer texts are no kubeconfig of one cluster.
const LIMIT: usize = 256 * 1024;

/// What a cluster entry may say.
const OF_A_CLUSTER: [&str; 5] =
    ["server", "certificate-authority-data", "tls-server-name", "disable-compression", "extensions"];
/// What a user entry may say.
const OF_A_USER: [&str; 4] = ["token", "client-certificate-data", "client-key-data", "extensions"];

/// The way to another cluster: where it is, how it proves that it is the one, and who we are to it. It holds no path
/// and no command. It has a secret in it, so it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteCluster {
    /// The URL of its API server; always `https`.
    pub server: String,
    /// The certificates that it is known by, as base64; those of the machine where there are none.
    pub certificate_authority: Option<String>,
    /// The name that its certificate must have, where it is not the one in the URL.
    pub tls_server_name: Option<String>,
    /// Who we are.
    pub login: Login,
}

/// What proves who we are.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// A token.
    Token(String),
    /// A certificate and its key, both as base64.
    Certificate {
        /// The certificate.
        certificate: String,
        /// Its key.
        key: String,
    },
}

impl RemoteCluster {
    /// A kubeconfig with this and nothing else.
    pub fn kubeconfig(&self) -> Value {
        let fields = [
            ("server", Some(&self.server)),
            ("certificate-authority-data", self.certificate_authority.as_ref()),
            ("tls-server-name", self.tls_server_name.as_ref()),
        ];
        let written = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
        let cluster: Map<String, Value> = written.collect();
        let user = match &self.login {
            Login::Token(token) => json!({"token": token}),
            Login::Certificate { certificate, key } => {
                json!({"client-certificate-data": certificate, "client-key-data": key})
            }
        };
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "remote", "cluster": cluster}],
            "users": [{"name": "remote", "user": user}],
            "contexts": [{"name": "remote", "context": {"cluster": "remote", "user": "remote"}}],
            "current-context": "remote",
        })
    }
}

/// Reads a kubeconfig as data; why it cannot be used, otherwise. The reason names fields and never repeats what they hold.
pub fn remote_cluster(text: &str) -> Result<RemoteCluster, String> {
    if text.len() > LIMIT {
        return Err(format!("it is longer than {} KiB", LIMIT / 1024));
    }
    // The error of the parser would quote the text, which is a secret.
    let whole: Value = serde_saphyr::from_str(text)
        .map_err(|_| "it is neither YAML nor JSON that can be read".to_owned())?;
    let context = current(&whole)?;
    let cluster = entry(&whole, ("clusters", "cluster"), text_of(&context, "cluster"))?;
    let user = entry(&whole, ("users", "user"), text_of(&context, "user"))?;
    cluster.check(&OF_A_CLUSTER)?;
    user.check(&OF_A_USER)?;
    Ok(RemoteCluster {
        server: server(&cluster)?,
        certificate_authority: cluster.text("certificate-authority-data")?,
        tls_server_name: cluster.text("tls-server-name")?,
        login: login(&user)?,
    })
}

/// One entry of a kubeconfig, with the path by which people know it.
struct Entry<'a> {
    path: String,
    fields: &'a Map<String, Value>,
}

impl Entry<'_> {
    /// Refuses by name what is not permitted here.
    fn check(&self, permitted: &[&str]) -> Result<(), String> {
        let harmless = |value: &Value| value.is_null() || value == "" || *value == Value::Bool(false);
        for (name, value) in self.fields {
            if permitted.contains(&name.as_str()) || harmless(value) {
                continue;
            }
            return Err(format!(
                "`{}.{}` is not permitted: {}",
                self.path,
                name.escape_debug(),
                reason(name)
            ));
        }
        Ok(())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{}.{name}` must be text", self.path)),
        }
    }
}

fn reason(field: &str) -> &'static str {
    match field {
        "exec" | "auth-provider" => "it would run a program here; use `token` or a client certificate",
        "tokenFile" => "it names a file of the controller; put the token itself into `token`",
        "client-certificate" => "it names a file of the controller; use `client-certificate-data`",
        "client-key" => "it names a file of the controller; use `client-key-data`",
        "certificate-authority" => "it names a file of the controller; use `certificate-authority-data`",
        "insecure-skip-tls-verify" => {
            "anybody could answer in the cluster's place; use `certificate-authority-data`"
        }
        "proxy-url" => "the controller reaches clusters directly",
        "username" | "password" => "API servers take no passwords; use `token` or a client certificate",
        "as" | "as-uid" | "as-groups" | "as-user-extra" => "nobody is impersonated; use a user of its own",
        _ => "only the server, its certificates, an inline token or an inline client certificate are used",
    }
}

/// The context that counts: the current one, or the only one.
fn current(whole: &Value) -> Result<Map<String, Value>, String> {
    let name = whole.get("current-context").and_then(Value::as_str).filter(|name| !name.is_empty());
    let count = whole.get("contexts").and_then(Value::as_array).map_or(0, Vec::len);
    if name.is_none() && count > 1 {
        return Err("it has several contexts: name one in `current-context`".to_owned());
    }
    if name.is_none() && count == 0 {
        // With one cluster and one user there is no choice.
        return Ok(Map::new());
    }
    entry(whole, ("contexts", "context"), name).map(|found| found.fields.clone())
}

fn text_of<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The entry of this name in a list; the only one where no name is given.
fn entry<'a>(whole: &'a Value, (list, field): (&str, &str), name: Option<&str>) -> Result<Entry<'a>, String> {
    let all = whole.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found = match name {
        Some(name) => {
            let is_it = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(name);
            all.iter().position(|entry| is_it(&entry))
        }
        None => (all.len() == 1).then_some(0),
    };
    let fields = found.and_then(|index| Some((index, all.get(index)?.get(field)?.as_object()?)));
    let (index, fields) =
        fields.ok_or_else(|| format!("`{list}` has no `{field}` for the context that counts"))?;
    Ok(Entry { path: format!("{list}[{index}].{field}"), fields })
}

fn server(cluster: &Entry<'_>) -> Result<String, String> {
    let path = &cluster.path;
    let server = cluster.text("server")?.ok_or_else(|| format!("`{path}.server` is missing"))?;
    let Some(rest) = server.strip_prefix("https://") else {
        return Err(format!("`{path}.server` must begin with `https://`"));
    };
    let plain = |character: char| character.is_ascii_graphic() && !"@\\\"<>?#".contains(character);
    if rest.is_empty() || rest.starts_with('/') || !rest.chars().all(plain) {
        return Err(format!("`{path}.server` must be `https://`, a host, and perhaps a port and a path"));
    }
    Ok(server)
}

fn login(user: &Entry<'_>) -> Result<Login, String> {
    let path = &user.path;
    let (certificate, key) = (user.text("client-certificate-data")?, user.text("client-key-data")?);
    match (user.text("token")?, certificate, key) {
        (Some(token), None, None) => Ok(Login::Token(token)),
        (None, Some(certificate), Some(key)) => Ok(Login::Certificate { certificate, key }),
        (Some(_), _, _) => Err(format!("`{path}` has both a token and a client certificate: keep one")),
        (None, None, None) => {
            Err(format!("`{path}` has neither `token` nor `client-certificate-data` with `client-key-data`"))
        }
        (None, _, _) => Err(format!("`{path}` needs both `client-certificate-data` and `client-key-data`")),
    }
}
