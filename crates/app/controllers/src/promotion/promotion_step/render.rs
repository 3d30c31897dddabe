//! `kustomize-build`: the files of a change laid out in a folder of their own, and the program that renders them.

mod urls;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use kardinal_git::process::{self, Bounds, Cut, Ended};
use kardinal_git::{ChangeError, Scratch, Tree};
use kardinal_reach::Policy;
use tokio::process::Command;

/// How long the program may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// The most that it may print.
const OUTPUT: u64 = 16 * 1024 * 1024;
/// The part of its complaints that is kept.
const COMPLAINTS: u64 = 64 * 1024;
/// The memory that it may take. A directory of 2,000 Deployments takes a sixth of it.
const MEMORY: u64 = 512 * 1024 * 1024;
/// Where it begins to tidy its memory up at the cost of time: before it meets the limit, at which it only dies.
const TIDY: u64 = MEMORY / 8 * 7;
/// It computes on several processors at once.
const COMPUTING: u64 = 4 * TIME_LIMIT.as_secs();
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
    ) -> Result<Vec<u8>, ChangeError> {
        let Some(program) = self.program else {
            return Err(ChangeError::problem(
                "`kustomize-build` needs the program `kustomize`, which is not on this machine: install it, or leave the \
                 task out",
            ));
        };
        let work = private_folder()?;
        tree.export("", work.path()).map_err(of_git)?;
        lay_out(work.path(), changed)?;
        // Nothing of the repository may be found where programs, plugins or settings are looked for.
        let nothing = private_folder()?;
        let bounds = Bounds { memory: MEMORY, file: None, seconds: COMPUTING };
        let mut build = bounds.command(program);
        build.arg("build").arg(work.path().join(directory)).env_clear().env("HOME", nothing.path());
        build.env("GOMEMLIMIT", TIDY.to_string());
        if self.reach.uses_machine() {
            build.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        } else {
            // It would fetch for whoever writes the kustomization, from wherever it stands.
            urls::check(work.path(), self.reach)?;
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
                build.env(name, NOWHERE);
            }
            build.env("PATH", nothing.path());
        }
        run(build, TIME_LIMIT).await
    }
}

/// It holds what is in somebody's repository.
fn private_folder() -> Result<Scratch, ChangeError> {
    Scratch::new().map_err(|error| ChangeError::fault(format!("no temporary directory: {error}")))
}

fn of_git(error: kardinal_git::Error) -> ChangeError {
    match error {
        kardinal_git::Error::Change(error) => error,
        kardinal_git::Error::Fault { message, .. } | kardinal_git::Error::Limited { message, .. } => {
            ChangeError::fault(message)
        }
        kardinal_git::Error::Problem { message, barrier } => {
            ChangeError { barrier, ..ChangeError::problem(message) }
        }
        kardinal_git::Error::NoCommit(message) | kardinal_git::Error::Overtaken(message) => {
            ChangeError::problem(message)
        }
    }
}

/// Makes the folder what the change makes of it. Files go before others come: a folder may take the place of a file,
/// and a file that of a folder.
fn lay_out(work: &Path, changed: &Changed) -> Result<(), ChangeError> {
    let failed = |place: &str, error: std::io::Error| {
        let message = format!("`{place}` cannot be laid out: {error}");
        match error.kind() {
            // Two of the paths do not go together.
            ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::AlreadyExists
            | ErrorKind::InvalidFilename => ChangeError::problem(message),
            _ => ChangeError::fault(message),
        }
    };
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

/// Runs a program for a while and takes what it prints, up to a limit. It ends with the future, and whatever it has started
/// with it.
async fn run(command: Command, patience: Duration) -> Result<Vec<u8>, ChangeError> {
    let Ended { status, text, errors } =
        process::run(command, [OUTPUT, COMPLAINTS], tokio::time::sleep(patience)).await.map_err(|cut| {
            ChangeError::fault(match cut {
                Cut::NotStarted(error) => format!("`kustomize` cannot be started: {error}"),
                Cut::Stopped(()) => format!("kustomize build took longer than {} s", patience.as_secs()),
            })
        })?;
    if text.len() as u64 > OUTPUT {
        return Err(ChangeError::problem(format!("kustomize build prints more than {OUTPUT} bytes")));
    }
    match status.code() {
        Some(0) => Ok(text),
        Some(OF_THE_RUNTIME) if is_out_of_memory(&errors) => Err(ChangeError::problem(format!(
            "kustomize build needs more than {MEMORY} bytes of memory: let the kustomization include less, or in \
             several smaller ones"
        ))),
        Some(_) => Err(ChangeError::problem(format!("kustomize build: {}", first_line(&errors)))),
        None => Err(ChangeError::fault(format!("kustomize build was ended from outside: {status}"))),
    }
}

/// The status with which a Go program dies; kustomize itself ends with 1 if it cannot build.
const OF_THE_RUNTIME: i32 = 2;

/// Whether a Go program died for want of memory. The words depend on what it wanted it for.
fn is_out_of_memory(complaints: &[u8]) -> bool {
    let text = String::from_utf8_lossy(complaints);
    let runtime =
        text.lines().filter(|line| line.starts_with("fatal error: ") || line.starts_with("runtime: "));
    let mut said = runtime.take(4);
    said.any(|line| line.contains("out of memory") || line.contains("cannot allocate memory"))
}

fn first_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed without a word").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use kardinal_git::{Budget, Entry, Error};
    use kardinal_reach::Hosts;
    use kardinal_vcs::Barrier;

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

    async fn attempt(
        script: &str,
        reach: &Policy,
        tree: &Files,
        changed: &Changed,
    ) -> Result<String, ChangeError> {
        let _turn = ONE_AT_A_TIME.lock().await;
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), script);
        let renderer = Renderer { program: Some(&program), reach };
        let printed = renderer.render(tree, changed, "env").await?;
        Ok(String::from_utf8(printed).unwrap())
    }

    async fn render(script: &str, reach: &Policy, tree: &Files, changed: &Changed) -> Result<String, String> {
        attempt(script, reach, tree, changed).await.map_err(|error| error.message)
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
        assert_eq!(seen.unwrap().trim(), "GOMEMLIMIT HOME PATH PWD");
        let mut sleeps = Command::new("sleep");
        sleeps.arg("600");
        let turn = ONE_AT_A_TIME.lock().await;
        let told = run(sleeps, Duration::from_millis(10)).await.unwrap_err();
        drop(turn);
        assert!(told.may_pass && told.message.contains("took longer"), "{told}");
        let told =
            render("echo 'Error: no such file' >&2; exit 1", &machine(), &empty, &Changed::new()).await;
        assert_eq!(told.unwrap_err(), "kustomize build: Error: no such file");
    }

    /// As a Go program says it; that the real one does is seen in the tests of conformance.
    #[tokio::test]
    async fn kustomize_is_bounded_in_memory() {
        let empty = tree(&[("env/kustomization.yaml", "")]);
        let seen = render("ulimit -d; echo $GOMEMLIMIT", &machine(), &empty, &Changed::new()).await.unwrap();
        assert_eq!(seen, "524288\n469762048\n");
        for (script, is_memory) in [
            ("echo 'fatal error: runtime: out of memory' >&2; exit 2", true),
            (
                "echo 'runtime: x'; echo 'fatal error: out of memory allocating heap arena map' >&2; exit 2",
                true,
            ),
            ("echo 'fatal error: runtime: cannot allocate memory' >&2; exit 2", true),
            ("echo 'Error: x: out of memory' >&2; exit 2", false),
            ("echo 'fatal error: all goroutines are asleep' >&2; exit 2", false),
            ("echo 'fatal error: runtime: out of memory' >&2; exit 1", false),
        ] {
            let told = attempt(script, &machine(), &empty, &Changed::new()).await.unwrap_err();
            assert!(!told.may_pass, "{script}: {told}");
            assert_eq!(
                told.message.contains("more than 536870912 bytes of memory"),
                is_memory,
                "{script}: {told}"
            );
        }
    }

    #[tokio::test]
    async fn what_kustomize_has_started_ends_with_it() {
        let empty = tree(&[("env/kustomization.yaml", "")]);
        // Bounded, in case that it is not ended: it has inherited the pipes.
        let (machine, nothing) = (machine(), Changed::new());
        let seen = render("sleep 50 & echo built", &machine, &empty, &nothing);
        assert_eq!(tokio::time::timeout(TIME_LIMIT / 2, seen).await.unwrap().unwrap(), "built\n");
    }

    #[tokio::test]
    async fn what_kustomize_says_is_a_refusal_and_what_happens_to_it_is_none() {
        let empty = tree(&[("env/kustomization.yaml", "")]);
        for (script, may_pass) in [("exit 1", false), ("yes | head -c 20000000", false), ("kill -9 $$", true)]
        {
            let told = attempt(script, &machine(), &empty, &Changed::new()).await.unwrap_err();
            assert_eq!(told.may_pass, may_pass, "{script}: {told}");
        }
        let path = Path::new("/nonexistent/kustomize");
        let renderer = Renderer { program: Some(path), reach: &machine() };
        assert!(renderer.render(&empty, &Changed::new(), "env").await.unwrap_err().may_pass);
        let missing = Renderer { program: None, reach: &machine() };
        assert!(!missing.render(&empty, &Changed::new(), "env").await.unwrap_err().may_pass);
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
        let told = attempt("echo fetched", &cluster, &hostile, &Changed::new()).await.unwrap_err();
        assert!(told.message.contains("127.0.0.1") && told.message.contains("may not be reached"), "{told}");
        assert_eq!((told.may_pass, told.barrier), (false, Barrier::HostNotAllowed));
        let named = tree(&[("env/kustomization.yaml", "patches: \"\\u0000\" # --allowed-hosts http\n: [\n")]);
        let told = attempt("echo fetched", &cluster, &named, &Changed::new()).await.unwrap_err();
        assert_eq!(told.barrier, Barrier::Other, "{told}");
        let plain = tree(&[("env/kustomization.yaml", "resources:\n- https://github.com/x/y\n")]);
        let seen = render("echo $HTTPS_PROXY", &cluster, &plain, &Changed::new()).await.unwrap();
        assert_eq!(seen.trim(), NOWHERE);
    }

    #[tokio::test]
    async fn no_way_of_writing_a_url_gets_kustomize_to_the_machine() {
        let cluster = Policy::cluster(Hosts::default());
        let config = "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nfiles: [\"a=\\x68ttp://127.0.0.1/x\"]\n";
        for text in [
            "resources: [\"\\x68ttp://127.0.0.1:8080/x\"]\n",
            "resources: [\"http:\\/\\/127.0.0.1/x\"]\n",
            "resources: [\"ht\\\n  tp://127.0.0.1/x\"]\n",
            "resources: [!!binary aHR0cDovLzEyNy4wLjAuMS94]\n",
            "%TAG !b! tag:yaml.org,2002:bin\n---\nresources: [!b!ary aHR0cDovLzEyNy4wLjAuMS94]\n",
            "resources:\n- http://[::1]:8080/x\n",
            "resources:\n- HTTP://LOCALHOST/x\n",
            "resources:\n- \"http://a,b'c@127.0.0.1/x\"\n",
            "resources: [http://127.0.0.1,x@good.example/y]\n",
            "configMapGenerator:\n- name: x\n  files: [key=http://127.0.0.1/x]\n",
            "configMapGenerator:\n- name: x\n  Files: [key=http://127.0.0.1/x]\n",
            "patches:\n- path: http://127.0.0.1/x\n",
            "generators:\n- |\n  apiVersion: builtin\n  files: [\"\\x68ttp://127.0.0.1/x\"]\n",
            "generators: [config]\n",
            "Generators: [config]\n",
            "generators: [./folder]\n",
            "resources: [a]\nresources: [\"\\x68ttp://127.0.0.1/x\"]\n",
        ] {
            let hostile = Files(
                [
                    ("env/kustomization.yaml", text),
                    ("env/config", config),
                    ("env/folder/kustomization.yaml", ""),
                ]
                .map(|(path, text)| (path.to_owned(), text))
                .into(),
                Budget::default(),
            );
            let told = render("echo fetched", &cluster, &hostile, &Changed::new()).await;
            assert!(told.is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn what_is_not_fetched_may_name_the_machine() {
        let cluster = Policy::cluster(Hosts::default());
        for text in [
            "# see http://127.0.0.1/x\nresources: [a.yaml]\n",
            "configMapGenerator:\n- name: x\n  literals: [\"URL=http://localhost:8080\"]\n",
            "patches:\n- patch: |-\n    - op: add\n      path: /args/0\n      value: --to=http://localhost:80\n",
            "namePrefix: {{ .Values.prefix }}\n",
            "generators: [plain]\n",
        ] {
            let plain = tree(&[("env/kustomization.yaml", text), ("env/plain", "kind: X\n")]);
            let seen = render("echo built", &cluster, &plain, &Changed::new()).await;
            assert_eq!(seen.as_deref().map(str::trim), Ok("built"), "{text}");
        }
    }
}
