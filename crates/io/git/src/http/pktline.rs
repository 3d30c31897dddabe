//! Lines with a length in front, the alphabet of git's protocol.

use std::io::{self, Read};

/// The longest packet, its length included.
const MAX: usize = 65_520;

/// One packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Line(Vec<u8>),
    Flush,
    Delimiter,
    End,
}

/// Appends a line.
pub(crate) fn line(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(format!("{:04x}", text.len() + 4).as_bytes());
    out.extend_from_slice(text);
}

/// Ends a message.
pub(crate) fn flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Separates the parts of a message.
pub(crate) fn delimiter(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

/// Reads the next packet; `None` at the end of the input.
pub(crate) fn read(input: &mut dyn Read) -> io::Result<Option<Packet>> {
    let mut head = [0; 4];
    let [first, rest @ ..] = &mut head;
    if input.read(std::slice::from_mut(first))? == 0 {
        return Ok(None);
    }
    input.read_exact(rest)?;
    let length = std::str::from_utf8(&head).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
    match length {
        Some(0) => Ok(Some(Packet::Flush)),
        Some(1) => Ok(Some(Packet::Delimiter)),
        Some(2) => Ok(Some(Packet::End)),
        Some(length @ 4..=MAX) => {
            let mut line = vec![0; length - 4];
            input.read_exact(&mut line)?;
            Ok(Some(Packet::Line(line)))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a packet has no valid length")),
    }
}

/// Reads the data band of a multiplexed stream; an error band ends it.
pub(crate) struct Band<R> {
    input: R,
    data: Vec<u8>,
    at: usize,
    done: bool,
    /// What the remote had to say to the user.
    pub(crate) messages: String,
}

impl<R: Read> Band<R> {
    /// Starts at the first multiplexed packet.
    pub(crate) fn new(input: R) -> Band<R> {
        Band { input, data: Vec::new(), at: 0, done: false, messages: String::new() }
    }

    fn fill(&mut self) -> io::Result<()> {
        while self.at >= self.data.len() && !self.done {
            match read(&mut self.input)? {
                Some(Packet::Line(line)) => self.take(line)?,
                Some(_) | None => self.done = true,
            }
        }
        Ok(())
    }

    fn take(&mut self, line: Vec<u8>) -> io::Result<()> {
        match line.split_first() {
            Some((1, _)) => {
                self.data = line;
                self.at = 1;
                Ok(())
            }
            Some((2, text)) if self.messages.len() < 4096 => {
                self.messages.push_str(&String::from_utf8_lossy(text));
                Ok(())
            }
            Some((3, text)) => Err(io::Error::other(String::from_utf8_lossy(text).trim().to_owned())),
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for Band<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill()?;
        let mut left = self.data.get(self.at..).unwrap_or_default();
        let count = left.read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let mut out = Vec::new();
        line(&mut out, b"hello\n");
        delimiter(&mut out);
        line(&mut out, b"");
        flush(&mut out);
        assert_eq!(out, b"000ahello\n000100040000");
        let mut input = out.as_slice();
        let mut packets = Vec::new();
        while let Some(packet) = read(&mut input).unwrap() {
            packets.push(packet);
        }
        let lines =
            [Packet::Line(b"hello\n".to_vec()), Packet::Delimiter, Packet::Line(vec![]), Packet::Flush];
        assert_eq!(packets, lines);
    }

    #[test]
    fn garbage_is_an_error() {
        for bytes in [&b"00"[..], b"zzzz", b"0003", b"ffff", b"0010short", b"+123"] {
            assert!(read(&mut &*bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn bands_are_separated() {
        let mut out = Vec::new();
        line(&mut out, b"\x01ab");
        line(&mut out, b"\x02remote says\n");
        line(&mut out, b"\x01cd");
        flush(&mut out);
        let mut band = Band::new(out.as_slice());
        let mut data = Vec::new();
        band.read_to_end(&mut data).unwrap();
        assert_eq!((data.as_slice(), band.messages.as_str()), (&b"abcd"[..], "remote says\n"));
        let mut out = Vec::new();
        line(&mut out, b"\x03no way\n");
        assert_eq!(Band::new(out.as_slice()).read(&mut [0; 9]).unwrap_err().to_string(), "no way");
    }
}
