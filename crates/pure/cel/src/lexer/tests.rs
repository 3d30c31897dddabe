use super::*;

fn kinds(source: &str) -> Result<Vec<TokenKind>, CompileError> {
    let mut lexer = Lexer::new(source);
    let mut found = Vec::new();
    loop {
        let token = lexer.next()?;
        if token.kind == TokenKind::End {
            return Ok(found);
        }
        assert!(token.span.start < token.span.end, "empty token in {source:?}");
        found.push(token.kind);
    }
}

fn check(source: &str, expected: &[TokenKind]) {
    assert_eq!(kinds(source).as_deref(), Ok(expected), "tokens of {source:?}");
}

fn check_error(source: &str, place: (u32, u32), message: &str) {
    let error = kinds(source).expect_err(source);
    assert_eq!((error.span.start, error.span.end), place, "place of the error in {source:?}");
    assert!(error.message.contains(message), "{source:?} says {:?}, not {message:?}", error.message);
}

#[test]
fn words_and_punctuation() {
    use TokenKind::*;
    check("", &[]);
    check(" \t\r\n\x0c", &[]);
    check("a _b c1", &[Ident, Ident, Ident]);
    check("true false null in", &[True, False, Null, In]);
    check("trueish inn nullable True", &[Ident; 4]);
    check("as break const continue else for function if", &[Reserved; 8]);
    check("import let loop package namespace return var void while", &[Reserved; 9]);
    check("()[]{}", &[LeftParen, RightParen, LeftBracket, RightBracket, LeftBrace, RightBrace]);
    check(".,:?+-*/%!", &[Dot, Comma, Colon, Question, Plus, Minus, Star, Slash, Percent, Not]);
    check("== != < <= > >= && ||", &[Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, And, Or]);
    check("!!=", &[Not, NotEqual]);
    check("`a-b/c.d e`", &[QuotedIdent]);
}

#[test]
fn comments_are_blank() {
    use TokenKind::*;
    check("a // b + c\n + d", &[Ident, Plus, Ident]);
    check("// nothing else", &[]);
    check("a / / b", &[Ident, Slash, Slash, Ident]);
}

#[test]
fn numbers() {
    use TokenKind::*;
    check("0 42 0xfF 0XA", &[Int; 4]);
    check("0u 42U 0xffu", &[Uint; 3]);
    check("1.5 .5 1e3 1E-3 1.5e+3 .1e1", &[Double; 6]);
    check("1.size", &[Int, Dot, Ident]);
    check("1..5", &[Int, Dot, Double]);
    check("1e", &[Int, Ident]);
    check("1e+", &[Int, Ident, Plus]);
    check("1in", &[Int, In]);
    check("1.5u", &[Double, Ident]);
    check_error("0x", (0, 2), "hexadecimal");
    check_error("1 + 0xg", (4, 6), "hexadecimal");
}

#[test]
fn strings() {
    use TokenKind::*;
    check(r#""a" 'b' r"c" R'd'"#, &[String; 4]);
    check(r#"b"a" B'b' br"c" bR'd' Br"" BR''"#, &[Bytes; 6]);
    check(r#"'' "" """""" '''a'b''c'''"#, &[String; 4]);
    check(r#"'a\'b' "a\"b" 'a\\'"#, &[String; 3]);
    check(r"r'a\' r'\'", &[String; 2]);
    check("'''a\nb''' \"\"\"a\r\nb\"\"\"", &[String; 2]);
    check(r#"'''a\'''b''' """a\"""""#, &[String; 2]);
    check(r#"rb"x""#, &[Ident, String]);
    check(r#"xr"x""#, &[Ident, String]);
    check_error("'abc", (0, 4), "not closed");
    check_error("1 + \"abc\n\"", (4, 8), "not closed");
    check_error("'''abc''", (0, 8), "`'''`");
    check_error(r"'abc\'", (0, 6), "not closed");
    check_error(r"'\", (0, 2), "not closed");
    check_error("'é\\", (0, 4), "not closed");
}

#[test]
fn stray_characters_are_pointed_at() {
    check_error("a $ b", (2, 3), "`$`");
    check_error("a = b", (2, 3), "`=`");
    check_error("a & b", (2, 3), "`&`");
    check_error("a | b", (2, 3), "`|`");
    check_error("a ü b", (2, 4), "`ü`");
    check_error("a \u{201c}b\u{201d}", (2, 5), "`\u{201c}`");
    check_error("a \u{0} b", (2, 3), "`\\0`");
    check_error("``", (0, 2), "empty");
    check_error("`a", (0, 2), "closing backtick");
    check_error("`a$`", (0, 2), "may hold");
}

fn check_string(source: &str, expected: &str) {
    assert_eq!(literal::string_value(source, 0).as_deref(), Ok(expected), "value of {source:?}");
}

fn check_bytes(source: &str, expected: &[u8]) {
    assert_eq!(literal::bytes_value(source, 0).as_deref(), Ok(expected), "value of {source:?}");
}

#[test]
fn escapes_of_strings() {
    check_string(r"'\a\b\f\n\r\t\v'", "\x07\x08\x0c\n\r\t\x0b");
    check_string(r#"'\\\?\"\'\`'"#, "\\?\"'`");
    check_string(r"'\x41\X41\u00e9\U0001F600'", "AAé\u{1F600}");
    check_string(r"'\101\377\000'", "A\u{ff}\0");
    check_string(r"'\xff'", "\u{ff}");
    check_string(r"r'\n\x41'", r"\n\x41");
    check_string("\"\"\"a\r\nb\rc\nd\"\"\"", "a\nb\nc\nd");
    check_string(r#""""a"b""c\"""""#, "a\"b\"\"c\"");
    check_string("'é😀'", "é😀");
}

#[test]
fn escapes_of_bytes() {
    check_bytes(r"b'\x41\377\000'", &[0x41, 0xff, 0]);
    check_bytes("b'é'", "é".as_bytes());
    check_bytes(r"br'\x41'", br"\x41");
    check_bytes("b'''a\nb'''", b"a\nb");
    for source in [r"b'\u0041'", r"b'\U00000041'"] {
        let error = literal::bytes_value(source, 0).expect_err(source);
        assert!(error.message.contains("not allowed in bytes"), "{source}: {}", error.message);
    }
}

#[test]
fn wrong_escapes_are_pointed_at() {
    for (source, start, message) in [
        (r"'ab\q'", 3, r"`\q`"),
        (r"'\x4'", 1, r"`\x`"),
        (r"'\xg0'", 1, r"`\x`"),
        (r"'\u12'", 1, r"`\u`"),
        (r"'\U0001F60'", 1, r"`\U`"),
        (r"'\400'", 1, r"`\4`"),
        (r"'\08'", 1, r"`\0`"),
        (r"'\u+123'", 1, r"`\u`"),
        (r"'a\ud800'", 2, "U+D800"),
        (r"'\U00110000'", 1, "U+110000"),
        ("'''a\\\nb'''", 4, "end of a line"),
    ] {
        let error = literal::string_value(source, 0).expect_err(source);
        assert_eq!(error.span.start, start, "place of the error in {source:?}");
        assert!(error.message.contains(message), "{source:?} says {:?}", error.message);
    }
}
