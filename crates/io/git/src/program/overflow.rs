//! Whether the git program writes more than one fetch may bring. A limit for each file does not tell: there can be any number
//! of them.

use std::{path::Path, time::Duration};

use crate::{
    Limits,
    objects::{pack, scan},
};

/// How long nobody looks.
const PAUSE: Duration = Duration::from_millis(100);
/// What an empty file takes on a disk, more or less.
const LEAST: u64 = 4096;
/// What the index of a pack, forwards and backwards, has for one object.
const INDEXED: u64 = 36;
/// What an empty repository has, with the commits from which a fetch starts.
const BESIDES: u64 = 1 << 20;

/// How many bytes the folder may have.
pub(super) fn most(limits: &Limits) -> u64 {
    let index = u64::from(scan::MAX_OBJECTS) * INDEXED;
    // The index of a pack is in proportion to the pack: an object takes a dozen bytes there at least.
    let index = index.min(pack::at_once(limits).saturating_mul(INDEXED / 12));
    pack::at_once(limits).saturating_add(index).saturating_add(BESIDES)
}

/// Ends when the files in a folder have more than so many bytes.
pub(super) async fn full(folder: &Path, most: u64) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let folder = folder.to_owned();
        // It cannot fail but by the end of everything.
        if tokio::task::spawn_blocking(move || is_full(&folder, most)).await.unwrap_or(true) {
            return;
        }
    }
}

/// Whether the files in a folder have more than so many bytes. What goes away meanwhile counts for nothing.
pub(super) fn is_full(folder: &Path, most: u64) -> bool {
    let mut left = most;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() {
                folders.push(entry.path());
            }
            match left.checked_sub(data.len().max(LEAST)) {
                Some(rest) => left = rest,
                None => return true,
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use tokio::process::Command;

    use super::*;
    use crate::process::{self, Cut};

    #[tokio::test]
    async fn many_small_files_are_too_much_and_whoever_writes_them_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // Bounded, in case that it is not ended; the second one never writes and never ends by itself.
        command.args([
            "-c",
            "sleep 60 & for n in $(seq 100000); do mkdir -p $((n % 9)); echo > $((n % 9))/$n; done; wait",
        ]);
        command.current_dir(folder.path());
        let stopped = process::run(command, [0; 2], full(folder.path(), 40 * LEAST)).await;
        assert!(matches!(stopped, Err(Cut::Stopped(()))), "{stopped:?}");
        // Nobody writes any more.
        folder.close().unwrap();
    }

    #[test]
    fn the_limit_is_that_of_a_pack_with_its_index() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), [0; 5000]).unwrap();
        assert!(!is_full(folder.path(), LEAST + 5000));
        assert!(is_full(folder.path(), LEAST + 4999));
        assert!(!is_full(&folder.path().join("nothing"), 0));
        let large = Limits { pack: 1 << 30, ..Limits::default() };
        assert!((1 << 30..(1 << 30) + (200 << 20)).contains(&most(&large)), "{}", most(&large));
        let small = Limits { pack: 0, ..Limits::default() };
        assert!(most(&small) < 80 << 20, "{}", most(&small));
    }
}
