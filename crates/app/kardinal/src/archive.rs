//! Archives in the plain `tar` format, so that a backup can be looked into with any tool. Regular files only.
//!
//! The last file is `SHA256SUMS`, in the format of `sha256sum`: reading fails unless every file before it is as it was.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Seek, SeekFrom, Write};

use sha2::{Digest, Sha256};

const BLOCK: usize = 512;
const SUMS: &str = "SHA256SUMS";
/// The list of checksums is read into memory, so it is bounded.
const SUMS_LIMIT: u64 = 256 * 1024 * 1024;
/// The name of the entry that holds the name of the next one, where that is too long for a header: as GNU tar has it.
const LONG_NAME: &str = "././@LongLink";
/// No file system has longer paths.
const NAME_LIMIT: u64 = 4096;

/// An archive being written.
pub(crate) struct Writer<W> {
    out: W,
    sums: BTreeMap<String, String>,
}

impl<W: Write + Seek> Writer<W> {
    pub(crate) fn new(out: W) -> Writer<W> {
        Writer { out, sums: BTreeMap::new() }
    }

    /// Adds a file whose length is not known before `fill` has written all of it.
    pub(crate) fn add<T>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if split(name).is_none() {
            let length = u64::try_from(name.len()).unwrap_or(u64::MAX);
            anyhow::ensure!(length <= NAME_LIMIT, "the path `{name}` is too long for a backup");
            self.out.write_all(&header(("", LONG_NAME), Kind::LongName, length))?;
            self.out.write_all(name.as_bytes())?;
            self.out.write_all(&vec![0; padding(length)])?;
        }
        let start = self.out.stream_position()?;
        self.out.write_all(&[0; BLOCK])?;
        let mut body = Body { out: &mut self.out, hash: Sha256::new(), length: 0 };
        let filled = fill(&mut body)?;
        let Body { hash, length, .. } = body;
        self.out.write_all(&vec![0; padding(length)])?;
        self.out.seek(SeekFrom::Start(start))?;
        let place = split(name).unwrap_or(("", cut(name)));
        self.out.write_all(&header(place, Kind::File, length))?;
        self.out.seek(SeekFrom::End(0))?;
        self.sums.insert(name.to_owned(), hex(hash));
        Ok(filled)
    }

    /// Adds the checksums and the end.
    pub(crate) fn finish(mut self) -> anyhow::Result<W> {
        let mut text = String::new();
        for (name, sum) in &self.sums {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{sum}  {name}");
        }
        self.add(SUMS, |out| Ok(out.write_all(text.as_bytes())?))?;
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()?;
        Ok(self.out)
    }
}

struct Body<'a, W> {
    out: &'a mut W,
    hash: Sha256,
    length: u64,
}

impl<W: Write> Write for Body<'_, W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.out.write_all(data)?;
        self.hash.update(data);
        self.length += u64::try_from(data.len()).unwrap_or(u64::MAX);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reads an archive to its end and hands each file to `each`, which may leave some of it unread. A name that would lead
/// out of the folder it is unpacked into is refused. What was handed out is right only if the whole succeeds.
pub(crate) fn read(
    mut input: impl Read,
    mut each: impl FnMut(&str, &mut dyn Read) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut sums = BTreeMap::new();
    let mut long_name = None;
    loop {
        let mut block = [0; BLOCK];
        input.read_exact(&mut block).map_err(cut_off)?;
        if block.iter().all(|byte| *byte == 0) {
            anyhow::bail!("it ends without `{SUMS}`");
        }
        let (short, kind, length) = parse(&block)?;
        if kind == Kind::LongName {
            anyhow::ensure!(length <= NAME_LIMIT && long_name.is_none(), "it is damaged: a name is too long");
            let mut text = vec![0; usize::try_from(length).unwrap_or_default()];
            input.read_exact(&mut text).map_err(cut_off)?;
            input.read_exact(&mut vec![0; padding(length)]).map_err(cut_off)?;
            // Other programs end it with a zero.
            let text = text.strip_suffix(&[0]).unwrap_or(&text);
            long_name = Some(String::from_utf8_lossy(text).into_owned());
            continue;
        }
        let name = safe(long_name.take().unwrap_or(short))?;
        let mut body = Hashing { input: (&mut input).take(length), hash: Sha256::new() };
        if name == SUMS {
            let mut text = String::new();
            anyhow::ensure!(length <= SUMS_LIMIT, "`{SUMS}` is too long");
            body.read_to_string(&mut text).map_err(cut_off)?;
            input.read_exact(&mut vec![0; padding(length)]).map_err(cut_off)?;
            return compare(&text, &sums);
        }
        each(&name, &mut body)?;
        io::copy(&mut body, &mut io::sink()).map_err(cut_off)?;
        anyhow::ensure!(body.input.limit() == 0, "it is cut off");
        anyhow::ensure!(sums.insert(name.clone(), hex(body.hash)).is_none(), "it has `{name}` twice");
        input.read_exact(&mut vec![0; padding(length)]).map_err(cut_off)?;
    }
}

fn cut_off(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => anyhow::anyhow!("it is cut off"),
        _ => error.into(),
    }
}

struct Hashing<R> {
    input: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(out)?;
        self.hash.update(out.get(..length).unwrap_or_default());
        Ok(length)
    }
}

fn compare(text: &str, found: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let mut written = BTreeMap::new();
    for line in text.lines() {
        let Some((sum, name)) = line.split_once("  ") else { anyhow::bail!("`{SUMS}` cannot be read") };
        written.insert(name, sum);
    }
    for (name, sum) in found {
        anyhow::ensure!(written.remove(name.as_str()) == Some(sum), "`{name}` does not match its checksum");
    }
    match written.into_keys().next() {
        Some(missing) => anyhow::bail!("`{missing}` is missing"),
        None => Ok(()),
    }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn padding(length: u64) -> usize {
    let block = BLOCK as u64;
    usize::try_from((block - length % block) % block).unwrap_or_default()
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    /// The name of the file that follows.
    LongName,
}

/// A name as the two fields of a header hold it: the first folders, up to 155 bytes, and the rest, up to 100.
fn split(name: &str) -> Option<(&str, &str)> {
    if name.len() <= 100 {
        return Some(("", name));
    }
    let mut places = name.match_indices('/').map(|(at, _)| name.split_at(at));
    let (prefix, rest) = places.find(|(_, rest)| rest.len() <= 101)?;
    (prefix.len() <= 155).then_some((prefix, rest.trim_start_matches('/')))
}

/// As much of a name as one field holds, for programs that do not know long names.
fn cut(name: &str) -> &str {
    let end = (0..=100).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
    name.get(..end).unwrap_or_default()
}

/// A header of the format `ustar`.
fn header((prefix, short): (&str, &str), kind: Kind, length: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &str| {
        for (place, byte) in block.iter_mut().skip(at).zip(text.bytes()) {
            *place = byte;
        }
    };
    put(0, short);
    put(100, "0000600");
    put(108, "0000000");
    put(116, "0000000");
    if length < 1 << 33 {
        put(124, &format!("{length:011o}"));
    }
    put(136, "00000000000");
    put(148, "        ");
    put(
        156,
        match kind {
            Kind::File => "0",
            Kind::LongName => "L",
        },
    );
    put(257, "ustar");
    put(263, "00");
    put(345, prefix);
    if length >= 1 << 33 {
        // Lengths from 8 GiB on are binary, which every tar of today reads.
        for (place, byte) in block.iter_mut().skip(128).zip(length.to_be_bytes()) {
            *place = byte;
        }
        if let Some(first) = block.get_mut(124) {
            *first = 0x80;
        }
    }
    let sum = format!("{:06o}\0 ", sum_of(&block));
    for (place, byte) in block.iter_mut().skip(148).zip(sum.bytes()) {
        *place = byte;
    }
    block
}

/// The sum of a header's bytes, with blanks in place of the sum itself.
fn sum_of(block: &[u8; BLOCK]) -> u32 {
    let byte = |(at, byte): (usize, &u8)| u32::from(if (148..156).contains(&at) { b' ' } else { *byte });
    block.iter().enumerate().map(byte).sum()
}

/// What a header says: a name, what it is the name of, and a length.
fn parse(block: &[u8; BLOCK]) -> anyhow::Result<(String, Kind, u64)> {
    let text = |from: usize, length: usize| {
        let field = block.get(from..from + length).unwrap_or_default();
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(field.get(..end).unwrap_or_default()).into_owned()
    };
    let octal = |from: usize, length: usize| u64::from_str_radix(text(from, length).trim(), 8).ok();
    let kind = match block.get(156) {
        Some(b'0' | 0) => Some(Kind::File),
        Some(b'L') => Some(Kind::LongName),
        _ => None,
    };
    let is_whole = octal(148, 8) == Some(u64::from(sum_of(block))) && text(257, 5) == "ustar";
    let Some(kind) = kind.filter(|_| is_whole) else {
        anyhow::bail!("it is not an archive made by `kardinal backup`, or it is damaged");
    };
    let length = match block.get(124) {
        Some(0x80) => block.get(128..136).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes),
        _ => octal(124, 12),
    };
    let name = match text(345, 155) {
        prefix if prefix.is_empty() => text(0, 100),
        prefix => format!("{prefix}/{}", text(0, 100)),
    };
    let length = length.ok_or_else(|| anyhow::anyhow!("it is damaged: a file has no length"))?;
    Ok((name, kind, length))
}

/// A name that stays in the folder.
fn safe(name: String) -> anyhow::Result<String> {
    let stays = name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    anyhow::ensure!(
        stays && !name.contains('\0'),
        "the file name `{}` in it is not allowed",
        name.escape_default()
    );
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = Writer::new(io::Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.add(name, |out| Ok(out.write_all(content)?)).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn files(archive: &[u8]) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let mut files = Vec::new();
        read(archive, |name, content| {
            let mut text = Vec::new();
            content.read_to_end(&mut text)?;
            files.push((name.to_owned(), text));
            Ok(())
        })?;
        Ok(files)
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let long = format!("{}/{}", "a".repeat(120), "b".repeat(90));
        let longer = format!("{}/{}/{}", "a".repeat(200), "ä".repeat(100), "b".repeat(200));
        let whole = archive(&[
            ("a", b"x"),
            ("b/c", &[7; 512]),
            (&long, &[1; 1000]),
            (&longer, &[2; 1000]),
            ("empty", b""),
        ]);
        let found = files(&whole).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b/c", &long, &longer, "empty"]);
        assert_eq!((found[2].1.as_slice(), found[3].1.as_slice()), (&[1; 1000][..], &[2; 1000][..]));
        for length in (0..whole.len() - 2 * BLOCK).step_by(7) {
            assert!(files(&whole[..length]).is_err(), "{length} bytes");
        }
        for at in [0, BLOCK, 3 * BLOCK + 5] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(files(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        let long = format!("{}/../../../x", "a/".repeat(200));
        let deep = format!("/{}", "a".repeat(300));
        for name in ["../x", "/etc/passwd", "a/../../x", "a//b", "./a", &long, &deep] {
            let error = files(&archive(&[(name, b"x")])).unwrap_err().to_string();
            assert!(error.contains("is not allowed"), "{name}: {error}");
        }
    }
}
