//! A proxy that the operator has set is used, and is told of nothing that may not be reached by its URL.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::PathBuf,
    process::Command,
    sync::mpsc,
};

use kardinal_git::{Error, Git, Limits, Repositories as _, Settings};
use kardinal_reach::{Hosts, Policy};

use crate::bench::*;

const DIRECTORY: &str = "KARDINAL_TEST_DIRECTORY";

/// The environment belongs to the whole process, so the work is done in one of its own.
#[test]
fn a_proxy_is_used_for_what_may_be_reached_by_its_url_and_for_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&mut stream).lines().map_while(Result::ok);
            tell.send(lines.next().unwrap()).unwrap();
            let _ = lines.find(String::is_empty);
            stream
                .write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .unwrap();
        }
    });
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "proxy::inside", "--ignored", "--nocapture"]).env(DIRECTORY, folder.path());
    for name in ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    let output = command.env("HTTP_PROXY", &proxy).env("http_proxy", &proxy).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let heard: Vec<String> = told.try_iter().collect();
    let [only] = heard.as_slice() else { panic!("{heard:?}") };
    assert!(only.starts_with("GET http://git.example/a.git/info/refs?service=git-upload-pack "), "{only}");
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn inside() {
    let settings = Settings {
        cache_dir: PathBuf::from(std::env::var_os(DIRECTORY).unwrap()).join("cache"),
        max_bytes: 1 << 30,
        max_age: std::time::Duration::from_secs(3600),
        local: None,
        limits: Limits::default(),
    };
    let git = Git::reaching(settings, Policy::cluster(Hosts::default()), None);
    for forbidden in ["127.0.0.1:1", "localhost", "169.254.169.254", "metadata.google.internal"] {
        let error = git.tip(&remote(&format!("http://{forbidden}/a.git")), "main").await.unwrap_err();
        assert!(
            matches!(&error, Error::Problem { message: text, .. } if text.contains("may not be reached")),
            "{error:?}"
        );
    }
    let error = git.tip(&remote("http://git.example/a.git"), "main").await.unwrap_err();
    assert!(matches!(&error, Error::Fault { message, .. } if message.contains("502")), "{error:?}");
}
