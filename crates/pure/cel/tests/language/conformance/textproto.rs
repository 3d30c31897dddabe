//! A reader of the protobuf text format, as far as the conformance data uses it.

/// A message: its fields in order, a repeated field once per value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) fields: Vec<(String, Field)>,
}

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum Field {
    Message(Message),
    /// A string or bytes literal, escapes resolved.
    Text(Vec<u8>),
    /// A number, a bool or the name of an enum value.
    Word(String),
}

impl Message {
    pub(crate) fn all<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Field> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value)
    }

    pub(crate) fn messages<'m>(&'m self, name: &'m str) -> impl Iterator<Item = &'m Message> {
        self.all(name).filter_map(|field| match field {
            Field::Message(message) => Some(message),
            _ => None,
        })
    }

    pub(crate) fn message<'m>(&'m self, name: &'m str) -> Option<&'m Message> {
        self.messages(name).next()
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        match self.all(name).next()? {
            Field::Text(bytes) => Some(String::from_utf8(bytes.clone()).unwrap()),
            _ => None,
        }
    }

    pub(crate) fn word<'m>(&'m self, name: &'m str) -> Option<&'m str> {
        match self.all(name).next()? {
            Field::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.word(name) == Some("true")
    }
}

/// Reads a whole file.
pub(crate) fn parse(text: &str) -> Result<Message, String> {
    let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
    let message = reader.fields(None)?;
    Ok(message)
}

struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if byte == b'#' {
                while self.bytes.get(self.at).is_some_and(|byte| *byte != b'\n') {
                    self.at += 1;
                }
            } else if byte.is_ascii_whitespace() {
                self.at += 1;
            } else {
                return Some(byte);
            }
        }
        None
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn error<T>(&self, what: &str) -> Result<T, String> {
        let line =
            self.bytes[..self.at.min(self.bytes.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        Err(format!("line {line}: {what}"))
    }

    fn fields(&mut self, close: Option<u8>) -> Result<Message, String> {
        let mut message = Message::default();
        loop {
            match (self.peek(), close) {
                (None, None) => return Ok(message),
                (None, Some(_)) => return self.error("the message is not closed"),
                (Some(byte), Some(close)) if byte == close => {
                    self.at += 1;
                    return Ok(message);
                }
                _ => {}
            }
            let name = self.name()?;
            let colon = self.eat(b':');
            self.values(&mut message, &name, colon)?;
            let _ = self.eat(b',') || self.eat(b';');
        }
    }

    fn values(&mut self, message: &mut Message, name: &str, colon: bool) -> Result<(), String> {
        if !self.eat(b'[') {
            let value = self.value(colon)?;
            message.fields.push((name.to_owned(), value));
            return Ok(());
        }
        while !self.eat(b']') {
            let value = self.value(true)?;
            message.fields.push((name.to_owned(), value));
            let _ = self.eat(b',');
        }
        Ok(())
    }

    fn value(&mut self, colon: bool) -> Result<Field, String> {
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                self.fields(Some(b'}')).map(Field::Message)
            }
            Some(b'<') => {
                self.at += 1;
                self.fields(Some(b'>')).map(Field::Message)
            }
            Some(b'"' | b'\'') if colon => {
                let mut text = Vec::new();
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.at += 1;
                    self.string(quote, &mut text)?;
                }
                Ok(Field::Text(text))
            }
            Some(_) if colon => self.name().map(Field::Word),
            _ => self.error("a value is missing"),
        }
    }

    /// A field name, a number, a word, or the name of an extension in brackets.
    fn name(&mut self) -> Result<String, String> {
        self.peek();
        let start = self.at;
        let bracket = self.bytes.get(start) == Some(&b'[');
        while let Some(&byte) = self.bytes.get(self.at) {
            let part = byte.is_ascii_alphanumeric()
                || b"_.+-/".contains(&byte)
                || (bracket && b"[]".contains(&byte));
            if !part {
                break;
            }
            self.at += 1;
        }
        if start == self.at {
            return self.error("a name is missing");
        }
        Ok(String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned())
    }

    fn string(&mut self, quote: u8, out: &mut Vec<u8>) -> Result<(), String> {
        loop {
            let Some(&byte) = self.bytes.get(self.at) else { return self.error("the string is not closed") };
            self.at += 1;
            match byte {
                b'\\' => self.escape(out)?,
                byte if byte == quote => return Ok(()),
                byte => out.push(byte),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(&byte) = self.bytes.get(self.at) else { return self.error("the escape is not closed") };
        self.at += 1;
        match byte {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'x' | b'X' => {
                let value = self.number(16, 2);
                out.push(value as u8);
            }
            b'u' | b'U' => {
                let value = self.number(16, if byte == b'u' { 4 } else { 8 });
                let Some(character) = char::from_u32(value) else { return self.error("no such character") };
                out.extend(character.to_string().into_bytes());
            }
            b'0'..=b'7' => {
                self.at -= 1;
                let value = self.number(8, 3);
                out.push(value as u8);
            }
            other => out.push(other),
        }
        Ok(())
    }

    fn number(&mut self, radix: u32, most: usize) -> u32 {
        let mut value = 0;
        for _ in 0..most {
            let digit = self.bytes.get(self.at).and_then(|byte| char::from(*byte).to_digit(radix));
            let Some(digit) = digit else { break };
            value = value * radix + digit;
            self.at += 1;
        }
        value
    }
}
