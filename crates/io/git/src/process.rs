//! Programs that work on what others wrote: bound in what they take of the machine, and ended together with everything
//! that they have started.

use std::{
    ffi::OsStr,
    io::{Error, ErrorKind},
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

/// Sets limits for itself and becomes the program. A lower limit that holds already is fine. A file that grows beyond
/// its limit is an error for the one who writes it, which tells more than a signal. Everything here is built into the
/// shell, so that it needs no `PATH`.
const SCRIPT: &str = r#"
limit() { [ "$2" = - ] || ulimit "$1" "$2" 2>/dev/null || [ "$(ulimit "$1")" -le "$2" ]; }
trap '' XFSZ
limit -c 0 && limit -t "$1" && limit -f "$2" && limit -d "$3" || { echo 'fatal: no limits can be set' >&2; exit 1; }
shift 3
exec "$@"
"#;
/// With its path: the program may get a `PATH` of its own, in which there is nothing.
const SHELL: &str = "/bin/sh";
/// `ulimit -f` counts blocks.
const BLOCK: u64 = 512;
/// `ulimit -d` counts these.
const KIB: u64 = 1024;
/// What a shell says by its status if it cannot become the program.
const NOT_STARTED: [i32; 2] = [126, 127];
/// How long processes that were killed may take to be gone.
const GONE: Duration = Duration::from_secs(5);

/// What a program, and everything that it starts, may take: each process for itself.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of memory for data.
    pub memory: u64,
    /// Bytes in one file, where that is limited.
    pub file: Option<u64>,
    /// Seconds in which it computes.
    pub seconds: u64,
}

impl Bounds {
    /// A program within these bounds, without its arguments.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let file = self.file.map_or_else(|| "-".to_owned(), |bytes| bytes.div_ceil(BLOCK).to_string());
        let mut command = Command::new(SHELL);
        command.args(["-c", SCRIPT, "sh"]);
        command.args([self.seconds.to_string(), file, self.memory.div_ceil(KIB).to_string()]).arg(program);
        command
    }
}

/// What a program has printed, and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// What it printed.
    pub text: Vec<u8>,
    /// Its complaints.
    pub errors: Vec<u8>,
}

/// Why there is nothing of a program.
#[derive(Debug)]
pub enum Cut<T> {
    /// It could not be started.
    NotStarted(Error),
    /// It was ended, for this reason.
    Stopped(T),
}

/// Runs a program until it ends or `stop` does. It is a process group of its own, and no process of that group outlives
/// the call, however that ends: also if the future is dropped. Of what it prints, one byte more than `most` of the text
/// and of the complaints is kept.
pub async fn run<T>(
    mut command: Command,
    most: [u64; 2],
    stop: impl Future<Output = T>,
) -> Result<Ended, Cut<T>> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The child ends with the group; this is so that it is waited for.
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(Cut::NotStarted)?;
    // After the child, so that it goes before it: as long as nobody has waited for the child, its number is its own.
    let group = Group::of(child.id());
    let (text, errors) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        let status = child.wait().await;
        group.end();
        status
    };
    let mut work = std::pin::pin!(async { tokio::join!(some(text, most[0]), some(errors, most[1]), ended) });
    let (text, errors, status) = tokio::select! {
        biased;
        done = &mut work => done,
        why = stop => {
            group.end();
            // Whoever has inherited the pipes is gone when they are closed, and writes to no folder any more.
            let _ = tokio::time::timeout(GONE, work).await;
            return Err(Cut::Stopped(why));
        }
    };
    let status = status.map_err(Cut::NotStarted)?;
    if status.code().is_some_and(|code| NOT_STARTED.contains(&code)) {
        let said = String::from_utf8_lossy(&errors).trim().to_owned();
        return Err(Cut::NotStarted(Error::new(ErrorKind::NotFound, said)));
    }
    Ok(Ended { status, text, errors })
}

/// A process and everything it has started, by the number of the process. All of it ends with this.
struct Group {
    leader: Option<Pid>,
    ended: AtomicBool,
}

impl Group {
    fn of(leader: Option<u32>) -> Group {
        let leader = leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Group { leader, ended: AtomicBool::new(false) }
    }

    /// Once: later the number may be somebody else's.
    fn end(&self) {
        if let Some(leader) = self.leader
            && !self.ended.swap(true, Ordering::Relaxed)
        {
            // Mostly there is nobody left.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// One byte more than the limit at most; the rest is read and forgotten, or the program would wait for ever.
async fn some(stream: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let Some(mut stream) = stream else { return Vec::new() };
    let mut kept = Vec::new();
    // A stream that breaks ends with the process, whose status tells.
    let _ = (&mut stream).take(limit.saturating_add(1)).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    kept
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// One who has inherited the pipes would keep the call waiting; bounded, in case that nobody ends it.
    const CHILD: &str = "sleep 60 & echo started";

    #[tokio::test]
    async fn no_process_outlives_the_end_of_the_program() {
        let ended = run(shell(CHILD), [100; 2], pending::<()>());
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await.unwrap().unwrap();
        assert!(ended.status.success());
        assert_eq!(ended.text, b"started\n");
    }

    #[tokio::test]
    async fn no_process_outlives_a_stop_or_a_call_that_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(shell(&format!("mkfifo {}", pipe.display())).status().await.unwrap().success());
        for is_dropped in [false, true] {
            let (opened, mut begun) = tokio::sync::oneshot::channel();
            let (ended, end) = std::sync::mpsc::channel();
            let path = pipe.clone();
            std::thread::spawn(move || {
                let mut pipe = std::fs::File::open(path).unwrap();
                opened.send(()).unwrap();
                // Nobody writes; it ends when the last one who holds it does.
                ended.send(std::io::Read::read_to_end(&mut pipe, &mut Vec::new()).unwrap())
            });
            let command = shell(&format!("exec 9> {}; sleep 50 & wait", pipe.display()));
            if is_dropped {
                let call = run(command, [100; 2], pending::<()>());
                tokio::select! {
                    done = call => panic!("{done:?}"),
                    _ = &mut begun => {}
                }
            } else {
                let stopped = run(command, [100; 2], begun).await;
                assert!(matches!(stopped, Err(Cut::Stopped(Ok(())))), "{stopped:?}");
            }
            assert_eq!(end.recv_timeout(Duration::from_secs(30)), Ok(0), "a process lives on");
        }
    }

    #[tokio::test]
    async fn what_is_printed_is_kept_up_to_a_limit() {
        let ended = run(shell("echo 12345; echo abc >&2; exit 3"), [2, 9], pending::<()>()).await.unwrap();
        assert_eq!((ended.text.as_slice(), ended.errors.as_slice()), (&b"123"[..], &b"abc\n"[..]));
        assert_eq!(ended.status.code(), Some(3));
    }

    #[tokio::test]
    async fn bounds_hold_and_a_program_that_is_not_there_is_told() {
        let bounds = Bounds { memory: 1 << 30, file: None, seconds: 7 };
        let mut command = bounds.command("/bin/sh");
        command.args(["-c", "ulimit -c; ulimit -t; ulimit -d"]).env_clear();
        let ended = run(command, [100; 2], pending::<()>()).await.unwrap();
        assert_eq!(ended.text, b"0\n7\n1048576\n");
        let nothing = run(bounds.command("/nonexistent/program"), [100; 2], pending::<()>()).await;
        assert!(
            matches!(&nothing, Err(Cut::NotStarted(error)) if error.to_string().contains("/nonexistent/program"))
        );
    }
}
