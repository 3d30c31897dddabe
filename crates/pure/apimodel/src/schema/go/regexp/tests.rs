use serde_json::Value;

use super::*;

/// What Go says, written by `crates/test/testkit/go/regexp`; a test of `crates/test/conformance` keeps it true.
const GOLDEN: &str = include_str!("golden.jsonl");

#[test]
fn patterns_compile_and_match_as_go_regexp_does() {
    let mut lines = GOLDEN.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let head = lines.next().unwrap();
    let inputs: Vec<&str> =
        head["inputs"].as_array().unwrap().iter().map(|input| input.as_str().unwrap()).collect();
    let mut wrong = Vec::new();
    let mut patterns = 0;
    for line in lines {
        patterns += 1;
        let pattern = line["pattern"].as_str().unwrap();
        match (regex(pattern), line["error"].as_str()) {
            (Err(ours), Some(theirs)) if ours == theirs => {}
            (Err(ours), Some(theirs)) => wrong.push(format!("`{pattern}`: `{ours}`, Go: `{theirs}`")),
            (Err(ours), None) => wrong.push(format!("`{pattern}`: `{ours}`, Go takes it")),
            (Ok(_), Some(theirs)) => wrong.push(format!("`{pattern}`: taken, Go: `{theirs}`")),
            (Ok(regex), None) => {
                let theirs = line["matches"].as_str().unwrap();
                for (input, theirs) in inputs.iter().zip(theirs.chars()) {
                    if regex.is_match(input) != (theirs == '1') {
                        wrong.push(format!(
                            "`{pattern}` on {input:?} (as `{}`), Go: {theirs}",
                            regex.as_str()
                        ));
                    }
                }
            }
        }
    }
    assert!(patterns >= 300, "{patterns}");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn bombs_are_refused_before_they_are_compiled() {
    for pattern in ["(".repeat(50_000), "a".repeat(LENGTH + 1), "(".repeat(200) + &")".repeat(200)] {
        assert!(regex(&pattern).is_err());
    }
    assert!(regex(r"((\p{L}{30}){30}\p{L}{900}){1}").is_err(), "too large to compile");
    assert!(regex(r"^[\p{L}\p{N}]{1,63}$").is_ok(), "what people write is not");
}
