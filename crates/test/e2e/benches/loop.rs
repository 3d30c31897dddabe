//! `make bench-loop`: how long a version travels, and what it costs, as one table.
//!
//! Speed is told as a ratio within one run on one machine. Nothing passes or fails here. Runs on loopback only and
//! leaves nothing behind. The names of parts, `chain`, `many`, `repository` or `gitea`, run only those:
//! `cargo bench -p kardinal-e2e --bench loop -- chain`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is what this program is run for")]

#[path = "loop/forge.rs"]
mod forge;
#[path = "loop/place.rs"]
mod place;
#[path = "loop/repository.rs"]
mod repository;
#[path = "loop/table.rs"]
mod table;
#[path = "loop/travel.rs"]
mod travel;

use table::Row;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let wanted: Vec<String> = std::env::args().skip(1).filter(|part| !part.starts_with('-')).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    let mut rows: Vec<Row> = Vec::new();
    if wants("chain") {
        for environments in [3, 150] {
            rows.extend(told(runtime.block_on(travel::chain(environments))?));
        }
    }
    if wants("many") {
        rows.extend(told(runtime.block_on(travel::many(200))?));
    }
    if wants("repository") {
        rows.extend(told(runtime.block_on(repository::rows())?));
    }
    if wants("gitea") {
        rows.extend(told(runtime.block_on(forge::rows())?));
    }
    println!("{}", table::render(&rows));
    println!("{}", NOTES.trim());
    Ok(())
}

fn told(rows: Vec<Row>) -> Vec<Row> {
    for row in &rows {
        eprintln!("loop: {} done", row.what);
    }
    rows
}

const NOTES: &str = "
A chain is one Pipeline whose environments follow each other without people; its workload is healthy at once, so the time is
kardinal's own: API server, Graph, steps, commits, pushes. Everything runs in this one process, on the local forge.
API requests are those of the controllers, watches not counted. Memory is that of the whole process.
Git's own work is clone, edit, commit and push by the git program, each time anew, as a script does it.
";
