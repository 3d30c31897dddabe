//! `make bench-ground`: the embedded server beside kube-apiserver + etcd, and what gates and Graphs cost, as one table.
//!
//! Speed is told as a ratio within one run on one machine. Nothing passes or fails here. Runs on loopback only and
//! leaves nothing behind.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is what this program is run for")]

#[path = "ground/engine.rs"]
mod engine;
#[path = "ground/load.rs"]
mod load;
#[path = "ground/process.rs"]
mod process;
#[path = "ground/servers.rs"]
mod servers;
#[path = "ground/table.rs"]
mod table;

use table::Row;

fn main() -> anyhow::Result<()> {
    let mut rows = servers::rows()?;
    rows.extend(engine::rows()?);
    println!("{}", table::render(&rows));
    println!("{}", NOTES.trim());
    Ok(())
}

const NOTES: &str = "
Creates are ConfigMaps of 900 bytes through one kube::Client over HTTPS on loopback; both servers wait for the disk.
Memory is resident memory; on the right it is that of kube-apiserver and etcd together, without the controller manager.
A first walk finds everything in place; a walk from nothing applies every node and takes in every answer.
";

impl Row {
    fn progress(&self) {
        eprintln!("ground: {} done", self.what);
    }
}
