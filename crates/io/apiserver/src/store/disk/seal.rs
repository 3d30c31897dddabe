//! Checksums: of each record, and of all of them together.

use redb::{ReadableTable, Table};
use sha2::{Digest, Sha256};

const HIGH_WATER: &str = "sealed-high-water";
const COUNT: &str = "records";
const SUM: &str = "sum";
const SEAL: &str = "seal";

/// The checksum of one record: it covers the key and the version, too, so that a record in the wrong place is found.
pub(crate) fn checksum(key: &[u8], rv: u64, json: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(u64::try_from(key.len()).unwrap_or(u64::MAX).to_be_bytes());
    hash.update(key);
    hash.update(rv.to_be_bytes());
    hash.update(json);
    first_bytes(hash)
}

fn first_bytes(hash: Sha256) -> u64 {
    hash.finalize().iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

/// What all records amount to. A record that is lost or comes back changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    /// The highest resource version ever made durable.
    pub(super) high_water: u64,
    pub(super) count: u64,
    /// The sum of all checksums.
    pub(super) sum: u64,
}

impl Totals {
    pub(super) fn add(&mut self, checksum: u64) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(checksum);
    }

    pub(super) fn take(&mut self, checksum: u64) {
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(checksum);
    }

    fn seal(&self) -> u64 {
        let mut hash = Sha256::new();
        for number in [self.high_water, self.count, self.sum] {
            hash.update(number.to_be_bytes());
        }
        first_bytes(hash)
    }

    /// What was stored; nothing when it does not match its own checksum.
    pub(super) fn load(meta: &impl ReadableTable<&'static str, u64>) -> Result<Option<Totals>, redb::Error> {
        let number = |name: &'static str| -> Result<u64, redb::Error> {
            Ok(meta.get(name)?.map(|value| value.value()).unwrap_or_default())
        };
        let totals = Totals { high_water: number(HIGH_WATER)?, count: number(COUNT)?, sum: number(SUM)? };
        Ok((number(SEAL)? == totals.seal()).then_some(totals))
    }

    pub(super) fn store(&self, meta: &mut Table<'_, &'static str, u64>) -> Result<(), redb::Error> {
        for (name, number) in
            [(HIGH_WATER, self.high_water), (COUNT, self.count), (SUM, self.sum), (SEAL, self.seal())]
        {
            meta.insert(name, number)?;
        }
        Ok(())
    }
}
