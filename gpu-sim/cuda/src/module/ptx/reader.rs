//! Going through the tokens.

use crate::module::image::ImageError;
use crate::module::lexer::Token;

/// Tokens, how far they have been read, and what was found so far that concerns all of the text.
pub(super) struct Reader<'a> {
    pub(super) tokens: &'a [Token<'a>],
    pub(super) at: usize,
    pub(super) isa: u32,
    pub(super) sm: u32,
    pub(super) builtins: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn invalid(&self, what: &str) -> ImageError {
        let line = self
            .tokens
            .get(self.at.saturating_sub(1))
            .map_or(0, |t| t.line);
        ImageError::InvalidPtx(format!("line {line}: {what}"))
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied();
        self.at += usize::from(token.is_some());
        token
    }

    pub(super) fn peek(&self) -> &'a str {
        self.tokens.get(self.at).map_or("", |t| t.text)
    }

    pub(super) fn accept(&mut self, text: &str) -> bool {
        let found = self.peek() == text;
        self.at += usize::from(found);
        found
    }

    pub(super) fn word(&mut self, after: &str) -> Result<&'a str, ImageError> {
        self.next()
            .map(|t| t.text)
            .ok_or_else(|| self.invalid(&format!("nothing after {after}")))
    }

    pub(super) fn number(&mut self, after: &str) -> Result<usize, ImageError> {
        let text = self.word(after)?;
        number(text).ok_or_else(|| self.invalid(&format!("{after} {text}: not a number")))
    }

    pub(super) fn skip_function(&mut self) -> Result<(), ImageError> {
        loop {
            match self.word(".func")? {
                ";" => return Ok(()),
                "{" => return self.skip_braces(),
                _ => {}
            }
        }
    }

    pub(super) fn skip_braces(&mut self) -> Result<(), ImageError> {
        let mut depth = 1_u32;
        while depth > 0 {
            match self.word("{")? {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn skip_parentheses(&mut self) -> Result<(), ImageError> {
        while self.word("(")? != ")" {}
        Ok(())
    }
}

pub(super) fn number(text: &str) -> Option<usize> {
    let text = text.trim_end_matches('U');
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => usize::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
