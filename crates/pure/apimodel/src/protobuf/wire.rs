//! The bytes of protobuf: tags, variable-length numbers and blocks. It must not know any message.

use super::Fault;

/// Field numbers end here.
const NUMBERS: u64 = (1 << 29) - 1;

/// One field as it stands on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Block(&'a [u8]),
    Fixed32,
}

impl<'a> Wire<'a> {
    pub(super) fn varint(self) -> Result<u64, Fault> {
        match self {
            Wire::Varint(bits) => Ok(bits),
            _ => Err(Fault::new("the field is not a number")),
        }
    }

    /// A number of which the low half counts, as for every reader of protobuf.
    pub(super) fn int32(self) -> Result<i32, Fault> {
        let [a, b, c, d, ..] = self.varint()?.to_le_bytes();
        Ok(i32::from_le_bytes([a, b, c, d]))
    }

    pub(super) fn fixed64(self) -> Result<u64, Fault> {
        match self {
            Wire::Fixed64(bits) => Ok(bits),
            _ => Err(Fault::new("the field is not a number of eight bytes")),
        }
    }

    pub(super) fn block(self) -> Result<&'a [u8], Fault> {
        match self {
            Wire::Block(bytes) => Ok(bytes),
            _ => Err(Fault::new("the field is not text, bytes or a message")),
        }
    }
}

/// Walks over the fields of a message.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next field with its number.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, Fault> {
        if self.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 || number > NUMBERS {
            return Err(Fault::new("a field number is out of range"));
        }
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                Wire::Fixed64(self.take(8)?.iter().rev().fold(0, |bits, byte| (bits << 8) | u64::from(*byte)))
            }
            2 => {
                let length = self.varint()?;
                Wire::Block(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            _ => return Err(Fault::new("a field has an unknown wire type")),
        };
        Ok(Some((number, wire)))
    }

    /// A number of up to ten bytes, seven bits each.
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        let mut bits = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(Fault::new("it is cut off"))?;
            self.0 = rest;
            // Of the tenth byte one bit is left, as for every reader of protobuf.
            bits |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(bits);
            }
        }
        Err(Fault::new("a number is too long"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Fault::new("it is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }
}
