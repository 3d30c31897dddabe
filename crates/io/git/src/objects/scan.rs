//! What a received pack would cost, read before anything of it is unpacked: sizes are declared in front of the
//! compressed bytes, and a few bytes can unpack to gigabytes.

use std::{collections::BTreeMap, io::BufRead};

use gix::zlib::{Decompress, stream::inflate};
use gix_pack::data::{Entry, entry::Header};

use crate::{Limits, error::Failure};

/// The head of a pack: four letters, the version, the number of objects.
const HEAD: usize = 12;
/// Object ids are SHA-1.
const ID: usize = 20;
/// More objects than this do not go into one pack.
pub(crate) const MAX_OBJECTS: u32 = 4_000_000;
/// So many bytes may all objects of a pack have together, unpacked: it bounds the time.
const MAX_UNPACKED: u64 = 16 << 30;
/// So many objects of the largest size may be held at once while deltas are applied.
pub(crate) const HELD: u64 = 4;
/// Two numbers of ten bytes stand in front of a delta.
const DELTA_HEAD: usize = 20;

/// One object of the pack, as far as memory is concerned.
struct Item {
    offset: u64,
    /// The size when its deltas are applied.
    size: u64,
    /// Where its base is among the items, when the pack says so.
    base: Option<usize>,
    /// Deltas that build on it.
    children: u32,
}

/// Reads a pack to its end and refuses one that would cost more than the limits allow. Memory use does not depend on
/// what the pack declares.
pub(crate) fn scan(pack: &mut dyn BufRead, limits: &Limits) -> Result<(), Failure> {
    let Contents { items, by_name } = read(pack, limits)?;
    // Which objects these build on is not known yet: the worst is that they all build on each other.
    held(by_name, limits)?;
    branches(&items, by_name, limits)
}

/// The same for a pack whose deltas somebody else has applied, within bounds of their own: only the sizes count.
pub(crate) fn scan_indexed(pack: &mut dyn BufRead, limits: &Limits) -> Result<(), Failure> {
    read(pack, limits).map(|_| ())
}

/// What a pack has, all of it within the limits for one object.
struct Contents {
    items: Vec<Item>,
    /// The sizes, together, of those whose base is given by its name.
    by_name: u64,
}

fn read(pack: &mut dyn BufRead, limits: &Limits) -> Result<Contents, Failure> {
    let mut pack = Counted { inner: pack, offset: 0 };
    let count = count(&mut pack)?;
    let mut state = Decompress::default();
    let mut items: Vec<Item> = Vec::new();
    let (mut unpacked, mut by_name) = (0u64, 0u64);
    for _ in 0..count {
        let offset = pack.offset;
        let entry = Entry::from_read(&mut pack, offset, ID).map_err(|error| garbled(&error))?;
        object(entry.decompressed_size, limits)?;
        state.reset();
        let head = skip(&mut pack, &mut state, entry.decompressed_size)?;
        let (size, base) = match entry.header {
            Header::Commit | Header::Tree | Header::Blob | Header::Tag => (entry.decompressed_size, None),
            Header::OfsDelta { base_distance } => {
                let base = offset.checked_sub(base_distance).and_then(|at| find(&items, at));
                let base = base.ok_or_else(|| garbled(&"a delta has no base"))?;
                (delta(&head, limits)?, Some(base))
            }
            Header::RefDelta { .. } => {
                let size = delta(&head, limits)?;
                by_name = by_name.saturating_add(size);
                (size, None)
            }
        };
        if let Some(base) = base.and_then(|base| items.get_mut(base)) {
            base.children = base.children.saturating_add(1);
        }
        unpacked = unpacked.saturating_add(size).saturating_add(entry.decompressed_size);
        if unpacked > MAX_UNPACKED {
            return Err(Failure::problem("the pack of the repository unpacks to more than 16 GiB"));
        }
        items.push(Item { offset, size, base, children: 0 });
    }
    Ok(Contents { items, by_name })
}

/// While the deltas of an object are applied it stays in memory, unless only one builds on it.
fn branches(items: &[Item], by_name: u64, limits: &Limits) -> Result<(), Failure> {
    let mut above: BTreeMap<usize, u64> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let Some(base) = item.base else { continue };
        let own = items.get(base).filter(|base| base.children > 1).map_or(0, |base| base.size);
        let sum = above.get(&base).copied().unwrap_or(0).saturating_add(own);
        held(sum.saturating_add(by_name), limits)?;
        if item.children > 0 && sum > 0 {
            above.insert(at, sum);
        }
    }
    Ok(())
}

fn find(items: &[Item], offset: u64) -> Option<usize> {
    items.binary_search_by_key(&offset, |item| item.offset).ok()
}

/// One object is not larger than the limit.
pub(crate) fn object(size: u64, limits: &Limits) -> Result<(), Failure> {
    if size <= limits.object {
        return Ok(());
    }
    Err(Failure::problem(format!(
        "the repository has an object of {size} bytes, and at most {} are read: take the file out of its history, or \
         let the operator raise `--git-object-limit`",
        limits.object
    )))
}

fn held(size: u64, limits: &Limits) -> Result<(), Failure> {
    if size <= limits.object.saturating_mul(HELD) {
        return Ok(());
    }
    Err(Failure::problem(format!(
        "the deltas in the pack of the repository need {size} bytes at once, and at most {} are used: pack the \
         repository afresh, or let the operator raise `--git-object-limit`",
        limits.object.saturating_mul(HELD)
    )))
}

fn count(pack: &mut Counted<'_>) -> Result<u32, Failure> {
    let mut head = [0; HEAD];
    std::io::Read::read_exact(pack, &mut head).map_err(|error| garbled(&error))?;
    let [b'P', b'A', b'C', b'K', 0, 0, 0, 2 | 3, count @ ..] = head else {
        return Err(garbled(&"it has no head"));
    };
    let count = u32::from_be_bytes(count);
    if count > MAX_OBJECTS {
        return Err(Failure::problem(format!(
            "the pack of the repository has {count} objects, and at most {MAX_OBJECTS} are read"
        )));
    }
    Ok(count)
}

/// Unpacks one object into nothing; what stands at its beginning is returned.
fn skip(pack: &mut Counted<'_>, state: &mut Decompress, declared: u64) -> Result<Vec<u8>, Failure> {
    let mut buffer = [0; 16 * 1024];
    let mut head = Vec::new();
    let mut size = 0u64;
    loop {
        let count = inflate::read(pack, state, &mut buffer).map_err(|error| garbled(&error))?;
        if count == 0 {
            break;
        }
        let new = buffer.get(..count).unwrap_or_default();
        head.extend(new.iter().take(DELTA_HEAD.saturating_sub(head.len())));
        size += count as u64;
        if size > declared {
            break;
        }
    }
    match size == declared {
        true => Ok(head),
        false => Err(garbled(&"an object has not the size that it declares")),
    }
}

/// The size of a delta's result; that of its base is bounded, too.
fn delta(head: &[u8], limits: &Limits) -> Result<u64, Failure> {
    let mut bytes = head.iter().copied();
    let base = number(&mut bytes)?;
    let result = number(&mut bytes)?;
    object(base, limits)?;
    object(result, limits)?;
    Ok(result)
}

/// Seven bits at a time, the lowest first.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Result<u64, Failure> {
    let (mut value, mut shift) = (0u64, 0u32);
    loop {
        let byte = bytes.next().ok_or_else(|| garbled(&"a delta is cut short"))?;
        let part = u64::from(byte & 0x7f).checked_mul(1u64.checked_shl(shift).unwrap_or(0));
        let part = part.filter(|_| shift < 64).ok_or_else(|| garbled(&"a delta declares no size"))?;
        value |= part;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        shift += 7;
    }
}

fn garbled(error: &dyn std::fmt::Display) -> Failure {
    Failure::fault(format!("the remote sent a pack that cannot be read: {error}"))
}

/// Knows how far it has been read.
struct Counted<'a> {
    inner: &'a mut dyn BufRead,
    offset: u64,
}

impl std::io::Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
        self.offset += amount as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::{Error, objects::pack};
    use gix::{objs, zlib};

    const SMALL: Limits = Limits { object: 1000, pack: 1 << 20 };

    fn pack_of(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        entries.iter().for_each(|entry| pack.extend(entry));
        pack.extend([0; 20]);
        pack
    }

    fn size_and_kind(kind: u8, mut size: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut byte = (kind << 4) | (size & 0x0f) as u8;
        size >>= 4;
        while size > 0 {
            out.push(byte | 0x80);
            byte = (size & 0x7f) as u8;
            size >>= 7;
        }
        out.push(byte);
        out
    }

    fn deflated(data: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut stream = zlib::stream::deflate::Write::new(&mut out, zlib::Compression::BEST_SPEED);
        data.for_each(|chunk| stream.write_all(&chunk).unwrap());
        stream.flush().unwrap();
        out
    }

    fn blob(data: &[u8]) -> Vec<u8> {
        let mut entry = size_and_kind(3, data.len() as u64);
        entry.extend(deflated(std::iter::once(data.to_vec())));
        entry
    }

    fn leb(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    /// A delta whose base begins `distance` bytes earlier, or which names its base.
    fn delta_entry(distance: Option<u64>, base: u64, result: u64) -> Vec<u8> {
        let data = [leb(base), leb(result), vec![0x90, 1]].concat();
        let mut entry = size_and_kind(if distance.is_some() { 6 } else { 7 }, data.len() as u64);
        match distance {
            Some(distance) => {
                let mut bytes = vec![(distance & 0x7f) as u8];
                let mut rest = distance >> 7;
                while rest > 0 {
                    rest -= 1;
                    bytes.insert(0, (rest & 0x7f) as u8 | 0x80);
                    rest >>= 7;
                }
                entry.extend(bytes);
            }
            None => entry.extend([7; 20]),
        }
        entry.extend(deflated(std::iter::once(data)));
        entry
    }

    fn problem(pack: &[u8], limits: &Limits) -> String {
        match scan(&mut &*pack, limits) {
            Err(Failure::Plain(Error::Problem { message, .. })) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pack_that_unpacks_to_900_mib_is_refused_by_what_it_declares() {
        const SIZE: u64 = 900 << 20;
        let mut entry = size_and_kind(3, SIZE);
        // The rest of the zeros would never be read.
        entry.extend(deflated((0..4).map(|_| vec![0; 1 << 20])));
        let pack = pack_of(&[entry]);
        let mut rest = pack.as_slice();
        let refused = scan(&mut rest, &Limits::default()).unwrap_err().into_error().to_string();
        assert!(refused.contains("943718400 bytes") && refused.contains("--git-object-limit"), "{refused}");
        assert!(pack.len() - rest.len() < 100, "nothing was unpacked to find out");
    }

    #[test]
    fn a_delta_is_refused_by_the_size_of_its_result() {
        let base = blob(&[0; 600]);
        let pack = pack_of(&[base.clone(), delta_entry(Some(base.len() as u64), 600, 1 << 40)]);
        assert!(problem(&pack, &SMALL).contains("1099511627776 bytes"));
        let pack = pack_of(&[delta_entry(None, 1 << 40, 10)]);
        assert!(problem(&pack, &SMALL).contains("1099511627776 bytes"));
    }

    #[test]
    fn deltas_that_hold_each_other_in_memory_are_bounded_together() {
        // Every object has two deltas, so that all of them stay in memory down to the last.
        let base = blob(&[0; 900]);
        let mut entries = vec![base];
        for _ in 0..20 {
            let last = entries.last().unwrap().len() as u64;
            let leaf = delta_entry(Some(last), 900, 900);
            let next = delta_entry(Some(last + leaf.len() as u64), 900, 900);
            entries.extend([leaf, next]);
        }
        assert!(problem(&pack_of(&entries), &SMALL).contains("at once"));
        // One after the other is no burden.
        let mut entries = vec![blob(&[0; 900])];
        for _ in 0..200 {
            entries.push(delta_entry(Some(entries.last().unwrap().len() as u64), 900, 900));
        }
        scan(&mut pack_of(&entries).as_slice(), &SMALL).unwrap();
        let entries: Vec<_> = (0..20).map(|_| delta_entry(None, 900, 900)).collect();
        assert!(problem(&pack_of(&entries), &SMALL).contains("at once"));
    }

    #[test]
    fn an_object_that_is_longer_or_shorter_than_declared_is_garbled() {
        for declared in [9, 11] {
            let mut entry = size_and_kind(3, declared);
            entry.extend(deflated(std::iter::once(vec![1; 10])));
            let told = scan(&mut pack_of(&[entry]).as_slice(), &SMALL).unwrap_err();
            assert!(matches!(told, Failure::Plain(Error::Fault { .. })), "{told:?}");
        }
        let mut many = pack_of(&[]);
        many[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(problem(&many, &SMALL).contains("4294967295 objects"));
    }

    #[test]
    fn ordinary_packs_pass() {
        let objects: Vec<_> = (0..50u8)
            .map(|n| crate::objects::NewObject::new(objs::Kind::Blob, vec![n; 999]).unwrap())
            .collect();
        scan(&mut pack::encode(&objects).unwrap().as_slice(), &SMALL).unwrap();
    }
}
