//! Declarations of parameters and variables, and their initial values.

use crate::module::image::{Global, Image, ImageError};
use crate::module::ptx::reader::{Reader, number};

/// More alignment than anything has.
const MAX_ALIGN: usize = 1 << 20;
/// Most variables are small; larger initialisers than this are taken as zero.
const MAX_INIT: usize = 1 << 20;

/// A parameter or variable as declared.
pub(super) struct Declared<'a> {
    pub(super) name: &'a str,
    pub(super) size: usize,
    pub(super) align: usize,
    /// Bytes of one element.
    pub(super) element: usize,
}

impl<'a> Reader<'a> {
    /// `[.param] [.align N] .type [.ptr ...] NAME [dims]` up to what ends it.
    pub(super) fn declaration(&mut self, what: &str) -> Result<Declared<'a>, ImageError> {
        let (mut element, mut align, mut vector) = (None, None, 1);
        loop {
            let text = self.word(what)?;
            match text {
                ".align" => {
                    let asked = self.number(".align")?;
                    if !(1..=MAX_ALIGN).contains(&asked) {
                        return Err(self.invalid(&format!(".align {asked}: out of range")));
                    }
                    align = Some(asked);
                }
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                // The alignment that follows is of what the pointer points to.
                ".ptr" => {
                    while self.peek().starts_with('.') {
                        if self.word(".ptr")? == ".align" {
                            self.number(".align")?;
                        }
                    }
                }
                ".attribute" => self.skip_parentheses()?,
                _ if text.starts_with('.') => element = type_size(text).or(element),
                "(" | ")" | "{" | "}" | ";" | "," | "=" => {
                    return Err(self.invalid(&format!("{what} without a name")));
                }
                name => {
                    let Some(element) = element else {
                        return Err(self.invalid(&format!("{what} {name} without a type")));
                    };
                    let mut size = element * vector;
                    let align = align.unwrap_or(size);
                    while self.accept("[") {
                        if self.accept("]") {
                            size = 0;
                            continue;
                        }
                        let count = self.number("[")?;
                        size = size.saturating_mul(count);
                        if !self.accept("]") {
                            return Err(self.invalid(&format!("{name}: ']' missing")));
                        }
                    }
                    return Ok(Declared {
                        name,
                        size,
                        align: align.max(1),
                        element,
                    });
                }
            }
        }
    }

    pub(super) fn variable(&mut self, space: &str, image: &mut Image) -> Result<(), ImageError> {
        let external = self.before(".extern");
        let managed = self.peek() == ".attribute" && self.mentions(".managed");
        if matches!(self.peek(), ".texref" | ".samplerref" | ".surfref") {
            self.at += 1;
            return self.reference(image);
        }
        let Declared {
            name,
            mut size,
            align,
            element,
        } = self.declaration(space)?;
        let mut init = Vec::new();
        if self.accept("=") {
            init = self.initialiser(element)?;
            if size == 0 {
                size = init.len();
            }
        }
        init.truncate(size.min(MAX_INIT));
        let constant = space == ".const";
        if !external {
            image.globals.push(Global {
                name: name.to_owned(),
                size,
                align,
                init,
                managed,
                constant,
            });
        }
        // `.global .u32 a, b;` is not PTX that any compiler emits.
        if self.accept(";") {
            Ok(())
        } else {
            Err(self.invalid(&format!("{space} {name}: ';' missing")))
        }
    }

    /// Whether the directive just before the one being read is `text`.
    fn before(&self, text: &str) -> bool {
        self.at
            .checked_sub(2)
            .and_then(|i| self.tokens.get(i))
            .is_some_and(|t| t.text == text)
    }

    /// Whether the token just before the one being looked at is `text`.
    fn before_is(&self, text: &str) -> bool {
        self.at
            .checked_sub(1)
            .and_then(|i| self.tokens.get(i))
            .is_some_and(|t| t.text == text)
    }

    fn mentions(&self, text: &str) -> bool {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        rest.iter()
            .take_while(|t| t.text != ")")
            .any(|t| t.text == text)
    }

    /// `= value` or `= {values}`. Names of other variables (addresses) count as zero.
    fn initialiser(&mut self, element: usize) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let mut depth = 0_u32;
        loop {
            match self.peek() {
                ";" if depth == 0 => return Ok(bytes),
                "" => return Err(self.invalid("an initialiser that does not end")),
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "," | "-" | "(" | ")" | "generic" => {}
                text => {
                    let negative = self.before_is("-");
                    let value = literal(text).unwrap_or(0);
                    let value = if negative {
                        value.wrapping_neg()
                    } else {
                        value
                    };
                    bytes.extend(value.to_le_bytes().into_iter().take(element));
                }
            }
            self.at += 1;
        }
    }

    pub(super) fn reference(&mut self, image: &mut Image) -> Result<(), ImageError> {
        let name = self.word("a reference")?;
        image.references.push(name.to_owned());
        while self.word(name)? != ";" {}
        Ok(())
    }
}

/// A number as it is laid out in memory: an integer, or a float spelled `0f` or `0d` and its bits.
fn literal(text: &str) -> Option<u64> {
    let bits = ["0f", "0F", "0d", "0D"]
        .iter()
        .find_map(|mark| text.strip_prefix(mark));
    match bits.filter(|bits| matches!(bits.len(), 8 | 16)) {
        Some(bits) => u64::from_str_radix(bits, 16).ok(),
        None => number(text).and_then(|n| u64::try_from(n).ok()),
    }
}

fn type_size(text: &str) -> Option<usize> {
    Some(match text {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        ".texref" | ".samplerref" | ".surfref" => 8,
        _ => return None,
    })
}
