//! PTX text cut into words, numbers and punctuation, without comments.

/// One token and the line it stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    pub(crate) line: u32,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.' | b':')
}

/// Length of the token (or blank, or comment) that `rest` begins with.
fn extent(rest: &[u8]) -> Result<usize, &'static str> {
    let to = |end: &[u8]| rest.windows(end.len()).skip(2).position(|w| w == end);
    match rest {
        [b'/', b'/', ..] => Ok(rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => to(b"*/")
            .map(|at| at + 4)
            .ok_or("a comment that does not end"),
        [b'"', tail @ ..] => {
            let end = tail.iter().position(|b| *b == b'"');
            end.map(|at| at + 2).ok_or("a string that does not end")
        }
        [first, ..] if is_word(*first) => {
            // A directive ends where the next begins (`.param.u64`), but `1.5` and `a.b` are one.
            let directive = *first == b'.';
            let more = rest
                .iter()
                .skip(1)
                .take_while(|b| is_word(**b) && !(directive && **b == b'.'));
            Ok(1 + more.count())
        }
        _ => Ok(1),
    }
}

/// All tokens of `text`, or what is wrong with it.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut found = Vec::with_capacity(text.len() / 4);
    let (mut at, mut line) = (0, 1_u32);
    while let Some(rest) = text.as_bytes().get(at..).filter(|rest| !rest.is_empty()) {
        let length = extent(rest).map_err(|what| format!("line {line}: {what}"))?;
        let Some(token) = text.get(at..at + length) else {
            return Err(format!("line {line}: a character that PTX does not know"));
        };
        let comment = token.starts_with("//") || token.starts_with("/*");
        if !comment && !token.trim().is_empty() {
            found.push(Token { text: token, line });
        }
        let lines = token.bytes().filter(|b| *b == b'\n').count();
        line = line.saturating_add(u32::try_from(lines).unwrap_or(0));
        at += length;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_comments_strings_and_chained_directives() {
        let found = tokens("a/*x\n*/ .param.u64 p_0, // end\n[1.5] \"s;}\"").unwrap();
        let texts: Vec<&str> = found.iter().map(|t| t.text).collect();
        assert_eq!(
            texts,
            [
                "a", ".param", ".u64", "p_0", ",", "[", "1.5", "]", "\"s;}\""
            ]
        );
        assert_eq!(found.last().unwrap().line, 3);
    }

    #[test]
    fn what_does_not_end_is_refused() {
        assert!(tokens("a /* b").is_err());
        assert!(tokens("a \"b").is_err());
    }
}
