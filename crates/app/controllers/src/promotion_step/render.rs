//! `kustomize-build`: the files of a change laid out in a folder of their own, and the program that renders them.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kardinal_git::Tree;
use kardinal_manifest::kustomize;
use kardinal_reach::Policy;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// How long the program may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most that it may print.
const OUTPUT: u64 = 16 * 1024 * 1024;
/// The part of its complaints that is kept.
const COMPLAINTS: u64 = 64 * 1024;
/// Nobody listens there: what is fetched through this proxy is not fetched.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Files that differ from the tree: the new content, or none where the file is gone.
pub(super) type Changed = BTreeMap<String, Option<Vec<u8>>>;

/// The program, and what it may reach.
pub(super) struct Renderer<'a> {
    /// Where it is; none where it is not installed.
    pub(super) program: Option<&'a Path>,
    /// Which hosts may be talked to.
    pub(super) reach: &'a Policy,
}

impl Renderer<'_> {
    /// Renders a directory of the tree as the change leaves it, in a folder that is always removed.
    pub(super) async fn render(
        &self,
        tree: &dyn Tree,
        changed: &Changed,
        directory: &str,
    ) -> Result<Vec<u8>, String> {
        let Some(program) = self.program else {
            return Err("`kustomize-build` needs the program `kustomize`, which is not on this machine: \
                        install it, or leave the task out"
                .to_owned());
        };
        let work = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
        tree.export("", work.path()).map_err(|error| error.to_string())?;
        lay_out(work.path(), changed)?;
        // Nothing of the repository may be found where programs, plugins or settings are looked for.
        let nothing = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
        let mut build = Command::new(program);
        build.arg("build").arg(work.path().join(directory)).env_clear().env("HOME", nothing.path());
        if self.reach.uses_machine() {
            build.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        } else {
            // It would fetch for whoever writes the kustomization, from wherever it stands.
            check_urls(work.path(), self.reach)?;
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
                build.env(name, NOWHERE);
            }
            build.env("PATH", nothing.path());
        }
        run(build, PATIENCE).await
    }
}

/// Makes the folder what the change makes of it. Files go before others come: a folder may take the place of a file,
/// and a file that of a folder.
fn lay_out(work: &Path, changed: &Changed) -> Result<(), String> {
    let failed = |place: &str, error: std::io::Error| format!("`{place}` cannot be laid out: {error}");
    for (place, _) in changed.iter().filter(|(_, content)| content.is_none()) {
        match std::fs::remove_file(work.join(place)) {
            // It was not there before either.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            other => other.map_err(|error| failed(place, error))?,
        }
        // Git knows no empty folders.
        let above = Path::new(place).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        for folder in above {
            if std::fs::remove_dir(work.join(folder)).is_err() {
                break;
            }
        }
    }
    for (place, content) in changed {
        let Some(content) = content else { continue };
        let path = work.join(place);
        let folder = path.parent().map_or_else(|| work.to_owned(), Path::to_owned);
        std::fs::create_dir_all(&folder).map_err(|error| failed(place, error))?;
        std::fs::write(&path, content).map_err(|error| failed(place, error))?;
    }
    Ok(())
}

/// Every URL in a kustomization is judged. What is not fetched through a proxy is what is on this machine.
fn check_urls(work: &Path, reach: &Policy) -> Result<(), String> {
    for file in kustomizations(work).map_err(|error| format!("the files cannot be read: {error}"))? {
        let text = std::fs::read(&file).map_err(|error| format!("the files cannot be read: {error}"))?;
        let text = String::from_utf8_lossy(&text);
        let words = text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '[' | ']'));
        for url in words.filter_map(|word| reqwest::Url::parse(word.trim_start_matches("git::")).ok()) {
            if let Some(host) = url.host_str() {
                reach.check_host(host, url.port_or_known_default())?;
            }
        }
    }
    Ok(())
}

fn kustomizations(work: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![work.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let named = kustomize::FILES.iter().any(|file| entry.file_name() == *file);
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false if named => found.push(entry.path()),
                false => {}
            }
        }
    }
    Ok(found)
}

/// Runs a program for a while and takes what it prints, up to a limit. It ends with the future.
async fn run(mut command: Command, patience: Duration) -> Result<Vec<u8>, String> {
    command.kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("`kustomize` cannot be started: {error}"))?;
    let (printed, complaints) = (child.stdout.take(), child.stderr.take());
    let work = async { tokio::join!(some(printed, OUTPUT), some(complaints, COMPLAINTS), child.wait()) };
    let Ok((printed, complaints, status)) = tokio::time::timeout(patience, work).await else {
        return Err(format!("kustomize build took longer than {} s", patience.as_secs()));
    };
    let status = status.map_err(|error| format!("kustomize build: {error}"))?;
    if printed.len() as u64 > OUTPUT {
        return Err(format!("kustomize build prints more than {OUTPUT} bytes"));
    }
    match status.success() {
        true => Ok(printed),
        false => Err(format!("kustomize build: {}", first_line(&complaints))),
    }
}

/// One byte more than the limit at most; the rest is read and forgotten, or the program would wait for ever.
async fn some(stream: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let Some(mut stream) = stream else { return Vec::new() };
    let mut kept = Vec::new();
    // A stream that breaks ends with the process, whose status tells.
    let _ = (&mut stream).take(limit + 1).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    kept
}

fn first_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed without a word").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use kardinal_git::{Budget, Entry, Error};
    use kardinal_reach::Hosts;

    use super::*;

    /// A tree of files in memory.
    struct Files(BTreeMap<String, &'static str>, Budget);

    impl Tree for Files {
        fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
            Ok(self.0.get(path).map(|text| text.as_bytes().to_vec()))
        }

        fn list(&self, _: &str) -> Result<Vec<Entry>, Error> {
            Ok(Vec::new())
        }

        fn export(&self, _: &str, to: &Path) -> Result<(), Error> {
            for (path, text) in &self.0 {
                let path = to.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Ok(())
        }

        fn budget(&self) -> &Budget {
            &self.1
        }
    }

    fn tree(files: &[(&str, &'static str)]) -> Files {
        Files(files.iter().map(|(path, text)| ((*path).to_owned(), *text)).collect(), Budget::default())
    }

    fn changed(files: &[(&str, Option<&str>)]) -> Changed {
        files.iter().map(|(path, text)| ((*path).to_owned(), text.map(|t| t.as_bytes().to_vec()))).collect()
    }

    /// A program that stands in for kustomize.
    fn program(folder: &Path, script: &str) -> PathBuf {
        let path = folder.join("kustomize");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A program that has just been written cannot be started while a process that another test starts at that moment
    /// still has it open.
    static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    async fn render(script: &str, reach: &Policy, tree: &Files, changed: &Changed) -> Result<String, String> {
        let _turn = ONE_AT_A_TIME.lock().await;
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), script);
        let renderer = Renderer { program: Some(&program), reach };
        let printed = renderer.render(tree, changed, "env").await?;
        Ok(String::from_utf8(printed).unwrap())
    }

    fn machine() -> Policy {
        Policy::machine(Hosts::default())
    }

    #[tokio::test]
    async fn config_merge_with_kustomize_build_sees_new_folders_and_no_removed_files() {
        let tree = tree(&[
            ("env/kustomization.yaml", "k"),
            ("env/old/a.yaml", "a"),
            ("env/file", "f"),
            ("env/dir/x", "x"),
        ]);
        let change = changed(&[
            ("env/new/deep/b.yaml", Some("b")),
            ("env/old/a.yaml", None),
            ("env/never/was.yaml", None),
            ("env/file", None),
            ("env/file/inside", Some("i")),
            ("env/dir/x", None),
            ("env/dir", Some("d")),
        ]);
        let seen =
            render("cd \"$2\" && find . -type f -o -type d -empty | sort", &machine(), &tree, &change).await;
        assert_eq!(seen.unwrap(), "./dir\n./file/inside\n./kustomization.yaml\n./new/deep/b.yaml\n");
    }

    #[tokio::test]
    async fn kustomize_is_bounded_in_output_and_time_and_sees_no_secret() {
        let empty = tree(&[("env/kustomization.yaml", "")]);
        let told = render("yes | head -c 20000000", &machine(), &empty, &Changed::new()).await.unwrap_err();
        assert!(told.contains("more than 16777216 bytes"), "{told}");
        let seen =
            render("env | cut -d= -f1 | sort | tr '\\n' ' '", &machine(), &empty, &Changed::new()).await;
        assert_eq!(seen.unwrap().trim(), "HOME PATH PWD");
        let mut sleeps = Command::new("sleep");
        sleeps.arg("600");
        let turn = ONE_AT_A_TIME.lock().await;
        let told = run(sleeps, Duration::from_millis(10)).await.unwrap_err();
        drop(turn);
        assert!(told.contains("took longer"), "{told}");
        let told =
            render("echo 'Error: no such file' >&2; exit 1", &machine(), &empty, &Changed::new()).await;
        assert_eq!(told.unwrap_err(), "kustomize build: Error: no such file");
    }

    #[tokio::test]
    async fn no_program_or_plugin_of_the_repository_is_found_by_kustomize() {
        let tree = tree(&[("env/kustomization.yaml", ""), ("git", "#!/bin/sh\necho run\n")]);
        let script = "/bin/ls -A \"$HOME\" \"${PATH%%:*}\" 2>&1 | /bin/grep -c '^git$'; command -v git; true";
        let cluster = Policy::cluster(Hosts::default());
        let seen = render(script, &cluster, &tree, &Changed::new()).await.unwrap();
        assert_eq!(seen.trim(), "0");
    }

    #[tokio::test]
    async fn on_a_cluster_kustomize_fetches_nothing_from_the_machine() {
        let cluster = Policy::cluster(Hosts::default());
        let text = "resources: [\"http://127.0.0.1:8080/x.yaml\"]\n";
        let hostile = tree(&[("env/kustomization.yaml", text)]);
        let told = render("echo fetched", &cluster, &hostile, &Changed::new()).await.unwrap_err();
        assert!(told.contains("127.0.0.1") && told.contains("may not be reached"), "{told}");
        let plain = tree(&[("env/kustomization.yaml", "resources:\n- https://github.com/x/y\n")]);
        let seen = render("echo $HTTPS_PROXY", &cluster, &plain, &Changed::new()).await.unwrap();
        assert_eq!(seen.trim(), NOWHERE);
    }
}
