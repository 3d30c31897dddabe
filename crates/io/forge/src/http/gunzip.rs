//! Git compresses large requests; this unpacks them as they come.

use std::io::{Error, ErrorKind};

use bytes::Bytes;
use zlib_rs::{Inflate, InflateFlush, Status};

/// How much is unpacked in one go.
const CHUNK: usize = 64 * 1024;
/// Window bits of a gzip stream with the largest window.
const GZIP: u8 = 16 + 15;

/// A gzip stream that is being unpacked.
pub(super) struct Gunzip {
    inflate: Inflate,
    input: Bytes,
    done: bool,
}

impl Gunzip {
    pub(super) fn new() -> Gunzip {
        Gunzip { inflate: Inflate::new(true, GZIP), input: Bytes::new(), done: false }
    }

    /// Takes the next piece of the compressed stream, after the last one was pulled out.
    pub(super) fn push(&mut self, input: Bytes) {
        self.input = input;
    }

    /// The next unpacked piece; nothing when more input is needed.
    pub(super) fn pull(&mut self) -> Result<Option<Bytes>, Error> {
        let mut output = vec![0; CHUNK];
        let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
        if self.done || self.input.is_empty() && written == 0 && read == 0 {
            return Ok(None);
        }
        let status = self
            .inflate
            .decompress(&self.input, &mut output, InflateFlush::NoFlush)
            .map_err(|error| Error::new(ErrorKind::InvalidData, error.as_str()))?;
        let count = |now: u64, before: u64| usize::try_from(now.saturating_sub(before)).unwrap_or(usize::MAX);
        let used = count(self.inflate.total_in(), read).min(self.input.len());
        self.input = self.input.slice(used..);
        self.done = status == Status::StreamEnd;
        output.truncate(count(self.inflate.total_out(), written));
        Ok((!output.is_empty()).then(|| Bytes::from(output)))
    }

    /// Whether the stream has come to its proper end.
    pub(super) fn finished(&self) -> bool {
        self.done
    }
}
