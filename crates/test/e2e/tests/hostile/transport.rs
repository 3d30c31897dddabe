//! Attacks on the transport: bodies, heads and addresses that are too large.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use kardinal_testkit::up::Up;
use kardinal_testkit::world::client_of;

use crate::target::{JSON, in_process, unharmed};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HUGE: u64 = 50_000_000;
/// Memory that a server may hold on to after it refused bodies ten times as large in all.
const GROWTH_LIMIT: u64 = 48 << 20;

#[test]
fn large_bodies_in_process() -> anyhow::Result<()> {
    in_process(async |target| {
        let refused = target.send("POST", MAPS, JSON, vec![b' '; HUGE as usize]).await?;
        refused.refused("50 MB", &[413], &["large"])?;
        Ok(())
    })
}

#[test]
fn large_bodies_are_not_kept() -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    let server = Server::of(&up)?;
    let before = server.peak_memory()?;
    let folder = tempfile::tempdir()?;
    let zeros = folder.path().join("zeros");
    std::fs::File::create(&zeros)?.set_len(HUGE)?;
    // With and without a length, several at once.
    let uploads: Vec<_> = (0..8)
        .map(|number| {
            let source = if number % 2 == 0 { zeros.display().to_string() } else { "-".to_owned() };
            let post = format!("{} --http1.1 -X POST -T {source} {}", server.curl(), server.url(MAPS));
            let line = format!("{post} <{}", zeros.display());
            Command::new("sh").args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        })
        .collect::<Result<_, _>>()?;
    for (number, upload) in uploads.into_iter().enumerate() {
        let output = upload.wait_with_output()?;
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        // Without a length the server finds out while it reads; a client that goes on sending may then see nothing but
        // the end of the connection.
        let closed = number % 2 == 1 && ["000", "100"].iter().any(|code| answer.ends_with(code));
        ensure!(answer.ends_with("413") || closed, "should be answered 413: `{answer}`");
    }
    let grown = server.peak_memory()?.saturating_sub(before);
    ensure!(grown < GROWTH_LIMIT, "400 MB of refused bodies left {} MiB", grown >> 20);
    server.still_answers()?;
    unharmed(&up)
}

#[test]
fn large_bodies_through_the_client() -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    let server = Server::of(&up)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = client_of(&up.kubeconfig).await?;
        let request = http::Request::post(MAPS)
            .header("content-type", JSON)
            .body(kube::client::Body::from(vec![b' '; HUGE as usize]))?;
        // The server need not read on, so the client sees the answer or a connection that was closed on it.
        if let Ok(response) = client.send(request).await {
            ensure!(response.status() == 413, "should be answered 413, not {}", response.status());
        }
        Ok(())
    })?;
    server.still_answers()?;
    unharmed(&up)
}

#[test]
fn large_heads_and_addresses() -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    let server = Server::of(&up)?;
    let before = server.peak_memory()?;
    let folder = tempfile::tempdir()?;
    let header = folder.path().join("header");
    std::fs::write(&header, format!("X-Large: {}\n", "x".repeat(2_000_000)))?;
    let many = folder.path().join("many");
    std::fs::write(&many, (0..5000).map(|n| format!("X-{n}: y\n")).collect::<String>())?;
    let long = folder.path().join("url");
    std::fs::write(&long, format!("url = \"{}\"\n", server.url(&format!("{MAPS}/{}", "a".repeat(90_000)))))?;
    for version in ["--http1.1", "--http2"] {
        for arguments in [
            format!("-H @{} {}", header.display(), server.url(MAPS)),
            format!("-H @{} {}", many.display(), server.url(MAPS)),
            format!("-K {}", long.display()),
        ] {
            let answer = run(&format!("{} {version} {arguments}", server.curl()))?;
            // A server that does not read on may be seen as a connection that was closed, which curl shows as 000.
            let refused = ["400", "404", "414", "431", "000"].iter().any(|code| answer.ends_with(code));
            ensure!(refused, "{version} {:.60} was answered `{answer}`", arguments);
            server.still_answers()?;
        }
    }
    // A client that never finishes its head does not keep others waiting.
    let open: Vec<_> = (0..50).map(|_| TcpStream::connect(&server.address)).collect::<Result<_, _>>()?;
    server.still_answers()?;
    drop(open);
    let grown = server.peak_memory()?.saturating_sub(before);
    ensure!(grown < GROWTH_LIMIT, "large heads left {} MiB", grown >> 20);
    unharmed(&up)
}

#[test]
fn many_requests_at_once() -> anyhow::Result<()> {
    let up = Up::start(&[])?;
    let server = Server::of(&up)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = client_of(&up.kubeconfig).await?;
        let requests = (0..300).map(|_| {
            let client = client.clone();
            async move {
                let request = http::Request::get(MAPS).body(kube::client::Body::empty())?;
                anyhow::Ok(client.send(request).await?.status().as_u16())
            }
        });
        for code in futures::future::join_all(requests).await {
            let code = code?;
            ensure!(code == 200 || code == 429, "a list was answered {code}");
        }
        Ok(())
    })?;
    server.still_answers()?;
    unharmed(&up)
}

/// Connections that never finish their head take all places of their address.
#[test]
fn one_address_has_so_many_connections_to_each_port_and_no_more() -> anyhow::Result<()> {
    const PLACES: usize = 4;
    let up = Up::start(&["--max-connections-per-peer", &PLACES.to_string()])?;
    let server = Server::of(&up)?;
    let endpoints = up.kubeconfig.with_file_name("endpoints.json");
    let endpoints: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(endpoints)?)?;
    let web = endpoints["http"].as_str().context("the web side is on")?;
    let probe = format!("curl -s -m 60 -o /dev/null -w '%{{http_code}}' {web}/healthz");
    let list = format!("{} {}", server.curl(), server.url(MAPS));
    let head: &[u8] = b"GET / HTTP/1.1\r\nX-Half: ";
    let handshake: &[u8] = &[22, 3, 1, 2, 0, 1];
    for (address, begun, ask) in
        [(web.trim_start_matches("http://"), head, probe), (&*server.address, handshake, list)]
    {
        // Who came first is let in first, so all of these have their places when the next one asks.
        let open: Vec<_> = (0..PLACES).map(|_| begin(address, begun)).collect::<Result<_, _>>()?;
        let answer = run(&ask)?;
        // Where no handshake comes first, it is told why, if the end of the connection does not overtake that.
        let refused = answer == "000" || (answer == "503" && address != server.address);
        ensure!(refused, "{address}: one more was answered `{answer}`");
        drop(open);
        // A place is free as soon as the server has seen the end.
        let freed = (0..1000).any(|_| run(&ask).is_ok_and(|answer| answer == "200"));
        ensure!(freed, "{address}: nobody is let in any more");
    }
    unharmed(&up)
}

/// What is begun here is never finished.
fn begin(address: &str, with: &[u8]) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(with)?;
    Ok(stream)
}

fn run(line: &str) -> anyhow::Result<String> {
    let output = Command::new("sh").args(["-c", line]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The process behind a `kardinal up`.
struct Server {
    address: String,
    token: String,
    process: PathBuf,
}

impl Server {
    fn of(up: &Up) -> anyhow::Result<Server> {
        let kubeconfig: serde_json::Value =
            serde_saphyr::from_str(&std::fs::read_to_string(&up.kubeconfig)?)?;
        let text =
            |pointer: &str| kubeconfig.pointer(pointer).and_then(|value| value.as_str()).map(str::to_owned);
        let url = text("/clusters/0/cluster/server").context("the kubeconfig has a server")?;
        let token = text("/users/0/user/token").context("the kubeconfig has a token")?;
        let folder = up.kubeconfig.parent().context("the kubeconfig is in a folder")?;
        Ok(Server {
            address: url.trim_start_matches("https://").to_owned(),
            token,
            process: process_with(folder)?,
        })
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Prints the code of the answer last.
    fn curl(&self) -> String {
        format!(
            "curl -sk -m 60 -o /dev/null -w '%{{http_code}}' -H 'Authorization: Bearer {}' -H 'Content-Type: application/json'",
            self.token
        )
    }

    fn still_answers(&self) -> anyhow::Result<()> {
        let answer = run(&format!("{} {}", self.curl(), self.url(MAPS)))?;
        ensure!(answer == "200", "a list is answered `{answer}`");
        Ok(())
    }

    /// The most memory that the process ever had, in bytes.
    fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(self.process.join("status")).context("the server is gone")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        let kilobytes: u64 = line.split_whitespace().next().context("no number")?.parse()?;
        Ok(kilobytes << 10)
    }
}

/// The folder under `/proc` of the `kardinal` that keeps its data in `folder`.
fn process_with(folder: &Path) -> anyhow::Result<PathBuf> {
    let folder = folder.display().to_string();
    for entry in std::fs::read_dir("/proc")? {
        let process = entry?.path();
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
        if name.trim_end() == "kardinal"
            && command.split(|byte| *byte == 0).any(|word| word == folder.as_bytes())
        {
            return Ok(process);
        }
    }
    anyhow::bail!("no process `kardinal` with its data in {folder}");
}
