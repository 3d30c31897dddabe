//! What the git program and everything that it starts may take of the machine. The remote decides how much there is to
//! store and to unpack, and the program itself asks nobody.

use tokio::process::Command;

use crate::{
    Limits,
    error::Failure,
    objects::{pack, scan},
    process::Bounds,
};

/// What the program needs besides the objects that it holds: itself, its tables, what it remembers of deltas.
const BESIDES: u64 = 256 << 20;

/// The git program within bounds, without its arguments. `seconds` are those in which it computes.
pub(super) fn git(limits: &Limits, seconds: u64) -> Command {
    let bounds = Bounds { memory: memory(limits), file: Some(pack::at_once(limits)), seconds };
    let mut command = bounds.command("git");
    // Packs stay packs, so that they can be looked at. Large files are not held as a whole; nothing is done twice at once.
    for setting in [
        "fetch.unpackLimit=1".to_owned(),
        "transfer.unpackLimit=1".to_owned(),
        "pack.threads=1".to_owned(),
        format!("pack.windowMemory={}", limits.object),
        format!("core.bigFileThreshold={}", limits.object),
    ] {
        command.args(["-c", &setting]);
    }
    command
}

fn memory(limits: &Limits) -> u64 {
    limits.object.saturating_mul(scan::HELD).saturating_add(BESIDES)
}

/// Which bound the program has met, by what it prints itself.
pub(super) fn met(errors: &str, limits: &Limits) -> Option<Failure> {
    let errors = super::own_lines(errors);
    if errors.contains("File too large") {
        return Some(pack::too_much(pack::at_once(limits)));
    }
    let (_, rest) = errors.split_once("Out of memory").or_else(|| errors.split_once("out of memory"))?;
    // "malloc failed (tried to allocate 943718401 bytes)": one more than the object has.
    let tried =
        rest.split_once("tried to allocate ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let object = tried.and_then(|tried: u64| scan::object(tried.saturating_sub(1), limits).err());
    Some(object.unwrap_or_else(|| {
        Failure::problem(format!(
            "the git program needs more than {} bytes of memory for the repository: take large files out of its \
             history, or let the operator raise `--git-object-limit`",
            memory(limits)
        ))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { object: 1 << 20, pack: 1 << 30 };

    async fn printed(script: &str, limits: &Limits) -> (bool, String) {
        let mut command = git(limits, 600);
        // Instead of the program's own work: what a shell that it starts would see.
        command.args(["-c", &format!("alias.x=!{script}"), "x"]).env("LC_ALL", "C");
        let output = command.output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    #[tokio::test]
    async fn the_program_and_what_it_starts_are_bound() {
        let (done, text) = printed("ulimit -c; ulimit -t; ulimit -f; ulimit -d", &LIMITS).await;
        assert!(done, "{text}");
        assert_eq!(text.lines().collect::<Vec<_>>(), ["0", "600", "2129920", "266240"]);
    }

    #[tokio::test]
    async fn a_file_beyond_the_limit_is_an_error_that_is_understood() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let script = format!("head -c 20000000 /dev/zero > {}", path.display());
        let small = Limits { pack: 0, ..LIMITS };
        let (done, text) = printed(&script, &small).await;
        assert!(!done, "{text}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 16 << 20);
        let told = met(&text, &small).unwrap().into_error().to_string();
        assert!(told.contains("16777216 bytes") && told.contains("--git-pack-limit"), "{told}");
    }

    #[test]
    fn memory_is_told_by_the_object_that_needs_it_where_that_is_known() {
        let told = |errors: &str| met(errors, &LIMITS).map(|failure| failure.into_error().to_string());
        let known =
            told("fatal: Out of memory, malloc failed (tried to allocate 943718401 bytes)\n").unwrap();
        assert!(
            known.contains("an object of 943718400 bytes") && known.contains("--git-object-limit"),
            "{known}"
        );
        for unknown in [
            "fatal: Out of memory, malloc failed (tried to allocate 4096 bytes)",
            "fatal: Out of memory, realloc failed",
            "error: out of memory",
        ] {
            let text = told(unknown).unwrap();
            assert!(text.contains("272629760 bytes") && text.contains("--git-object-limit"), "{text}");
        }
        for lie in ["remote: fatal: Out of memory, malloc failed", "remote: File too large\nfatal: early EOF"]
        {
            assert_eq!(told(lie), None, "{lie}");
        }
        assert_eq!(told("fatal: the remote end hung up unexpectedly"), None);
    }
}
